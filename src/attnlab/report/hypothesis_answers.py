"""Answers to the hypotheses that an experiment declares: holds, fails, open, not measured.

A hypothesis says that one row is better than another in a column. It is answered from the differences over the seeds
that both rows have: it holds where the whole 95 % interval (`statistics.paired`) is on the claimed side of zero, and
fails where it is on the other side or where both rows have the same number in every seed. Otherwise it is open: the
interval holds zero, or there are fewer than five seeds, which have no interval.
"""

from attnlab.config.check import ConfigError
from attnlab.config.message_text import hint, listed
from attnlab.config.nearest_word import nearest
from attnlab.config.report_block import Hypothesis
from attnlab.learn.metric_units import lower_is_better, number
from attnlab.report.report_record import HypothesisAnswer
from attnlab.report.statistics import FEWEST, paired
from attnlab.report.table_types import Column, Table

HOLDS, FAILS, OPEN, NOT_MEASURED = VERDICTS = ("holds", "fails", "open", "not measured")


def answers(table: Table) -> list[HypothesisAnswer]:
    """The answers to all hypotheses of a table's report."""
    columns = {column.name: column for column in table.columns}
    return [
        HypothesisAnswer(row=one.row, than=one.than, column=one.column, verdict=verdict, reason=reason)
        for one in table.report.hypotheses
        for verdict, reason in [_answer(table, one, columns[one.column])]
    ]


def require_known(table: Table, rows_too: bool) -> None:
    """Checks the names in hypotheses and `highlight`.

    Args:
        rows_too: also names of rows; not for an experiment that is narrowed to some of its rows.

    Raises:
        ConfigError: no such column or row; with the nearest name.
    """
    columns = [column.name for column in table.columns]
    for one in table.report.hypotheses:
        if one.column not in columns:
            near = hint(nearest(one.column, columns))
            problem = f"report.hypotheses: no column {one.column}{near}; columns: {listed(columns)}"
            raise ConfigError([problem], "report.py")
    if rows_too:
        for name in (name for one in table.report.hypotheses for name in (one.row, one.than)):
            table.require_row(f"report.hypotheses: {name}", name)
        if table.report.highlight is not None:
            table.require_row(f"report.highlight={table.report.highlight}", table.report.highlight)


def sentence(answer: HypothesisAnswer) -> str:
    """A hypothesis and its answer in one line."""
    claim = f"{answer.row} is better than {answer.than} in {answer.column}"
    return f"{answer.verdict}: {claim} ({answer.reason})"


def _answer(table: Table, asked: Hypothesis, column: Column) -> tuple[str, str]:
    """Verdict and reason."""
    cells = {row: table.cells.get(row, {}).get(column.name) for row in (asked.row, asked.than)}
    values = {row: cell.values if cell else {} for row, cell in cells.items()}
    if lacking := [row for row, found in values.items() if not found]:
        return NOT_MEASURED, f"no number of {' and '.join(lacking)}"
    ours, theirs = values[asked.row], values[asked.than]
    seeds = ours.keys() & theirs.keys()
    differences = paired(ours, theirs)
    if differences is None:
        return OPEN, f"{len(seeds)} common seed{'' if len(seeds) == 1 else 's'}, two are needed for a spread"
    mean, low, high, method = differences
    ends = [number(value, column.unit, signed=True) for value in (mean, low, high)]
    sign = -1 if lower_is_better(column.metric) else 1
    reason = f"difference {ends[0]}, from {ends[1]} to {ends[2]}: {method}"
    if len(seeds) < FEWEST:
        better = sum(sign * (ours[seed] - theirs[seed]) > 0 for seed in seeds)
        return OPEN, f"{reason}; better in {better} of {len(seeds)} seeds, an interval needs {FEWEST}"
    worst, best = sorted((sign * low, sign * high))
    if worst > 0:
        return HOLDS, reason
    if best < 0 or worst == best == 0:
        return FAILS, reason
    return OPEN, f"{reason}; the interval holds zero"
