"""Choice among the values tried: by a validation metric (`report.chosen_by`), else by the numbers shown.

With `best_over` a cell shows the value with the best mean of that metric over seeds. Without `best_over` every value is
a row, and a note names the row with the best mean. Means are compared over the seeds that all values have; a value at
which a run diverged is not chosen while there is another.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from attnlab.config.message_text import counted, listed
from attnlab.config.problem import ConfigError
from attnlab.config.report_block import Report
from attnlab.learn.metric_units import lower_is_better, number, unit_of
from attnlab.report.report_record import Cell
from attnlab.report.runs.read_runs import FoundRun
from attnlab.report.statistics.differences import mean
from attnlab.report.table_types import TableError


def require_validation(report: Report) -> None:
    """Checks that a choice is made by validation.

    Raises:
        ConfigError: `report.chosen_by` is no validation metric.
    """
    if report.chosen_by is not None and not report.chosen_by.startswith("val/"):
        problem = f"report.chosen_by={report.chosen_by}: expected a validation metric, such as val/accuracy"
        raise ConfigError([f"{problem}; test numbers choose nothing"], "report.py")


def chosen_cell(report: Report, cells: Mapping[str, Cell], runs: Mapping[str, Sequence[FoundRun]]) -> Cell:
    """The cell with the best value of the keys in `best_over`.

    Args:
        cells, runs: of one row and column, by value.

    Raises:
        TableError: there are finished runs, and none has the metric that chooses.
    """
    if len(cells) == 1 or report.chosen_by is None:
        found = list(cells.values())
        sign = -1 if lower_is_better(found[0].column.metric) else 1
        return max(found, key=lambda cell: (cell.mean is not None, sign * (cell.mean or 0)))
    compared = _compare(report.chosen_by, runs)
    return (
        next(iter(cells.values())) if compared is None else replace(cells[compared.best[0]], chosen_by=compared.how())
    )


def row_sentences(report: Report, rows: Mapping[str, Sequence[FoundRun]]) -> list[str]:
    """The row that `report.chosen_by` chooses among all rows, in a sentence; none where `best_over` chooses in a row.

    Raises:
        TableError: as `chosen_cell`.
    """
    if report.chosen_by is None or report.best_over:
        return []
    compared = _compare(report.chosen_by, rows)
    if compared is None:
        return []
    numbers = f"({compared.mean} {compared.among})"
    if len(compared.best) > 1:
        return [f"{compared.metric} does not choose between {'; '.join(compared.best)} {numbers}"]
    return [f"chosen by {compared.metric}: {compared.best[0]} {numbers}"]


def chosen_sentences(chosen: Mapping[str, Cell]) -> list[str]:
    """Sentences on the values that cells show, by their names, and what chose them."""
    by_validation = [f"{name}: {cell.chosen} ({cell.chosen_by})" for name, cell in chosen.items() if cell.chosen_by]
    by_test = [f"{name}: {cell.chosen}" for name, cell in chosen.items() if cell.chosen and not cell.chosen_by]
    lines = [f"values chosen by validation: {'; '.join(by_validation)}"] if by_validation else []
    if by_test:
        lines.append(f"best of the values tried, chosen by the numbers shown, which are too good: {'; '.join(by_test)}")
    return lines


@dataclass(frozen=True)
class _Comparison:
    """The values tried, compared by a metric.

    best:  values with the best mean, in the order in which they were tried.
    mean:  of the best.
    among: how many values were compared, and over which seeds, in words.
    """

    metric: str
    best: Sequence[str]
    mean: str
    among: str

    def how(self) -> str:
        """What chose, in words: `val/accuracy 87.3 %, among 5 values`, with ties."""
        text = f"{self.metric} {self.mean}, {self.among}"
        return text + (f"; equal there, and tried later: {'; '.join(self.best[1:])}" if len(self.best) > 1 else "")


def _compare(metric: str, groups: Mapping[str, Sequence[FoundRun]]) -> _Comparison | None:
    """The values by their means over common seeds; None while no run has a number.

    Raises:
        TableError: runs are finished and none has the metric, or no seed is common to the values.
    """
    having = {name: known for name, runs in groups.items() if (known := _by_seed(metric, runs))}
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
    take: Callable[..., float] = min if lower_is_better(metric) else max
    top, unit = take(means.values()), unit_of(metric)
    among = [f"among {len(groups)} values"]
    if lacking := len(groups) - len(having):
        among.append(f"{lacking} without a number")
    if diverged := len(having) - len(sound):
        among.append(f"{diverged} with a run that diverged")
    if any(set(known) != common for known in sound.values()):
        among.append(f"over the {counted(len(common), 'seed')} that all of them have")
    shown = f"{number(top, unit.name)} {unit.sign}".rstrip()
    return _Comparison(metric, [name for name, value in means.items() if value == top], shown, ", ".join(among))


def _by_seed(metric: str, runs: Sequence[FoundRun]) -> dict[tuple[int | None, int], float]:
    """The numbers of some runs by data seed and seed."""
    values = {(run.data_seed, run.seed): run.value(metric) for run in runs}
    return {seeds: value for seeds, value in values.items() if value is not None}
