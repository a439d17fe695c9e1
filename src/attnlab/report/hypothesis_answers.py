"""Answers to the hypotheses that an experiment declares: supported, not supported, not enough seeds.

A hypothesis says that one row differs from another in a column, in a direction and by more than a threshold. It is
tested with the differences over the seeds that both rows have, by the two-sided paired t-test of `statistics.paired`
against the threshold. The p-values are corrected by Holm's method over all hypotheses that the experiment declares or
that its runs were begun under: also those that have no runs yet, or were removed or changed after the runs. A
hypothesis is supported where the mean difference is beyond the threshold in the claimed direction and the corrected
p-value is at most 0.05. Below five common seeds there is no test, nor where the differences are equal.
"""

from collections.abc import Sequence
from dataclasses import replace

from attnlab.config.message_text import counted
from attnlab.config.report_block import Hypothesis
from attnlab.learn.metric_units import lower_is_better, number
from attnlab.report.analysis_record import HypothesisAnswer
from attnlab.report.data_seeds import paired_on_data
from attnlab.report.declared_analysis import declaration, declared_hypotheses
from attnlab.report.failures.count_failures import mixed_seeds
from attnlab.report.read_runs import FoundRun
from attnlab.report.statistics import FEWEST, LEVEL, NORMAL, PairedDifference, holm, p_text
from attnlab.report.table_types import Cell, Column, Table
from attnlab.report.test_set_error import measured_runs

SUPPORTED, NOT_SUPPORTED, TOO_FEW = VERDICTS = ("supported", "not supported", "not enough seeds")


def answers(table: Table) -> list[HypothesisAnswer]:
    """The answers to all hypotheses of a table's report."""
    columns = {column.name: column for column in table.columns}
    asked = [(one, columns[one.column]) for one in table.report.hypotheses]
    tested = [_difference(table, one, column) for one, column in asked]
    # hypotheses that were declared and are no longer asked count as well
    dropped = [one for one in declared_hypotheses(table) if one not in table.report.hypotheses]
    corrected = holm([1.0 if not found or found.p is None else found.p for found in tested] + [1.0] * len(dropped))
    return [_answer(table, *asked[at], tested[at], corrected[at], len(corrected)) for at in range(len(asked))]


def answer_lines(found: Sequence[HypothesisAnswer]) -> list[str]:
    """A sentence for each hypothesis and its answer; where one was tested, also on the assumption behind the test."""
    lines = [f"{answer.verdict}: {answer.said} ({answer.reason}; {answer.declared})" for answer in found]
    return [*lines, NORMAL] if any(answer.p is not None for answer in found) else lines


def _difference(table: Table, asked: Hypothesis, column: Column) -> PairedDifference | None:
    """The difference of the two rows, tested against the threshold in the claimed direction."""
    ours, theirs = (cell.seeds if cell else () for cell in _cells(table, asked, column))
    return paired_on_data(ours, theirs, _sign(asked, column) * asked.threshold)


def _cells(table: Table, asked: Hypothesis, column: Column) -> list[Cell | None]:
    """The cells of both rows."""
    return [table.cells.get(row, {}).get(column.name) for row in (asked.row, asked.than)]


def _runs(table: Table, asked: Hypothesis, column: Column) -> list[FoundRun]:
    """The runs behind the numbers of both rows."""
    return [run for cell in _cells(table, asked, column) if cell for run in measured_runs(cell, table.by_folder)]


def _values(table: Table, asked: Hypothesis, column: Column) -> list[dict[int, float]]:
    """The numbers of both rows by seed."""
    return [cell.values if cell else {} for cell in _cells(table, asked, column)]


def _sign(asked: Hypothesis, column: Column) -> int:
    """1 where a higher number is claimed, else -1."""
    lower = asked.direction == "lower" or (asked.direction == "better" and lower_is_better(column.metric))
    return -1 if lower else 1


def _answer(
    table: Table, asked: Hypothesis, column: Column, found: PairedDifference | None, corrected: float, declared: int
) -> HypothesisAnswer:
    """Verdict, reason and numbers of one hypothesis.

    Args:
        declared: the number of hypotheses that p-values are corrected for.
    """
    beyond = f" by more than {number(asked.threshold, column.unit)}" if asked.threshold else ""
    answer = HypothesisAnswer(
        row=asked.row,
        than=asked.than,
        column=column.name,
        verdict=TOO_FEW,
        reason="",
        claim=f"{asked.row} is {asked.direction} than {asked.than} in {column.name}{beyond}",
        declared=declaration(table, asked, _runs(table, asked, column)),
    )
    rows = dict(zip((asked.row, asked.than), _values(table, asked, column), strict=True))
    if lacking := [row for row, values in rows.items() if not values]:
        return replace(answer, reason=f"no number of {' and '.join(lacking)}")
    ours, theirs = rows.values()
    common = len(ours.keys() & theirs.keys())
    if found is None:
        return replace(answer, reason=f"{counted(common, 'common seed')}, a test needs {FEWEST}")
    sign = _sign(asked, column)
    ends = [number(value, column.unit, signed=True) for value in (found.mean, found.low, found.high)]
    answer = replace(answer, difference=found.mean, low=found.low, high=found.high)
    reason = f"difference {ends[0]}, from {ends[1]} to {ends[2]}: {found.method}"
    if found.p is None and len(found.by_seed) >= FEWEST:
        return replace(answer, verdict=NOT_SUPPORTED, reason=f"difference {ends[0]}: {found.method}")
    if found.p is None:
        as_claimed = sum(sign * value > asked.threshold for value in found.by_seed.values())
        return replace(
            answer, reason=f"{reason}; as claimed in {as_claimed} of {len(found.by_seed)}, a test needs {FEWEST}"
        )
    p = p_text(found.p) + (f", corrected for {declared} hypotheses {p_text(corrected)}" if declared > 1 else "")
    beyond_it = sign * found.mean > asked.threshold
    if corrected <= LEVEL and not beyond_it:
        p += "; the test speaks against it"
    if mixed := mixed_seeds(table, column.name, rows):
        p += f"; {mixed}"
    verdict = SUPPORTED if corrected <= LEVEL and beyond_it else NOT_SUPPORTED
    return replace(answer, verdict=verdict, reason=f"{reason}; {p}", p=found.p, corrected=corrected)
