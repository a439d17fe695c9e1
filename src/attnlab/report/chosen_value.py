"""Choice among the values tried: by a validation metric (`report.chosen_by`), else by the numbers shown.

With `best_over` a cell shows the value with the best mean of that metric over seeds. Without `best_over` every value is
a row, and a note names the row with the best mean. Means are compared over the seeds that all values have; a value at
which a run diverged is not chosen while there is another.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from attnlab.config.message_text import counted, listed
from attnlab.config.report_block import Report
from attnlab.learn.metric_units import lower_is_better, number, unit_of
from attnlab.report.report_record import Cell
from attnlab.report.runs.read_runs import FoundRun
from attnlab.report.statistics.differences import mean
from attnlab.report.table_types import TableError


def chosen_cell(report: Report, cells: Mapping[str, Cell], runs: Mapping[str, Sequence[FoundRun]]) -> Cell:
    """The cell with the best value of the keys in `best_over`.

    Args:
        cells, runs: of one row and column, by value.

    Raises:
        TableError: there are finished runs, and none has the metric that chooses.
    """
    if len(cells) == 1 or report.chosen_by is None:
        tried = list(cells.values())
        sign = -1 if lower_is_better(tried[0].column.metric) else 1
        return max(tried, key=lambda cell: (cell.mean is not None, sign * (cell.mean or 0)))
    choice = _choice(report.chosen_by, runs)
    if choice is None:
        return next(iter(cells.values()))
    (best, *ties), value, among = choice
    equal = f"; equal there, and tried later: {'; '.join(ties)}" if ties else ""
    return replace(cells[best], chosen_by=f"{report.chosen_by} {value}, {among}{equal}")


def row_sentences(report: Report, rows: Mapping[str, Sequence[FoundRun]]) -> list[str]:
    """The row that `report.chosen_by` chooses among all rows, in a sentence; none where `best_over` chooses in a row.

    Raises:
        TableError: as `chosen_cell`.
    """
    metric = report.chosen_by
    choice = None if metric is None or report.best_over else _choice(metric, rows)
    if choice is None:
        return []
    best, value, among = choice
    opening = f"chosen by {metric}:" if len(best) == 1 else f"{metric} does not choose between"
    return [f"{opening} {'; '.join(best)} ({value} {among})"]


def chosen_sentences(chosen: Mapping[str, Cell]) -> list[str]:
    """Sentences on the values that cells show, by their names, and what chose them."""
    by_validation = [f"{name}: {cell.chosen} ({cell.chosen_by})" for name, cell in chosen.items() if cell.chosen_by]
    by_test = [f"{name}: {cell.chosen}" for name, cell in chosen.items() if cell.chosen and not cell.chosen_by]
    lines = [f"values chosen by validation: {'; '.join(by_validation)}"] if by_validation else []
    if by_test:
        lines.append(f"best of the values tried, chosen by the numbers shown, which are too good: {'; '.join(by_test)}")
    return lines


def _choice(metric: str, groups: Mapping[str, Sequence[FoundRun]]) -> tuple[list[str], str, str] | None:
    """The values with the best mean over common seeds, as tried; this mean, and among which values, in words.

    None while no run has a number.

    Raises:
        TableError: runs are finished and none has the metric, or no seed is common to the values.
    """
    numbers = {
        name: {(run.data_seed, run.seed): value for run in runs if (value := run.value(metric)) is not None}
        for name, runs in groups.items()
    }
    having = {name: known for name, known in numbers.items() if known}
    if not having:
        if done := [run for runs in groups.values() for run in runs if run.state == "finished"]:
            raise TableError(f"report.chosen_by={metric}: no finished run has it ({done[0].lacking(metric)})")
        return None
    # where runs diverge at every value, all of them are compared
    sound = {name: known for name, known in having.items() if not any(run.diverged for run in groups[name])} or having
    common = set.intersection(*(set(known) for known in sound.values()))
    if not common:
        raise TableError(f"report.chosen_by={metric}: no seed has it at all values ({listed(sound, 8)})")
    means = {name: mean([known[seed] for seed in common]) for name, known in sound.items()}
    top, unit = (min if lower_is_better(metric) else max)(means.values()), unit_of(metric)
    among = [f"among {len(groups)} values"]
    if lacking := len(groups) - len(having):
        among.append(f"{lacking} without a number")
    if diverged := len(having) - len(sound):
        among.append(f"{diverged} with a run that diverged")
    if any(set(known) != common for known in sound.values()):
        among.append(f"over the {counted(len(common), 'seed')} that all of them have")
    shown = f"{number(top, unit.name)} {unit.sign}".rstrip()
    return [name for name, value in means.items() if value == top], shown, ", ".join(among)
