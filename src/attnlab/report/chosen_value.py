"""Choice among the values tried: by a validation metric (`report.chosen_by`), else by the numbers shown.

With `best_over` a cell shows the value with the best mean of that metric over seeds. Without `best_over` every value is
a row, and a note names the row with the best mean.
"""

from collections.abc import Callable, Mapping, Sequence

from attnlab.config.check import ConfigError
from attnlab.config.report_block import Report
from attnlab.learn.metric_units import lower_is_better, number, unit_of
from attnlab.report.read_runs import FoundRun
from attnlab.report.statistics import mean
from attnlab.report.table_types import Cell, TableError


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
    measured = _means(report.chosen_by, runs)
    if not measured:
        _require_unfinished(report.chosen_by, runs)
        return next(iter(cells.values()))
    best = _best(report.chosen_by, measured)
    return cells[best[0]].taken_by(_how(report.chosen_by, measured, best, len(runs)))


def row_sentences(report: Report, rows: Mapping[str, Sequence[FoundRun]]) -> list[str]:
    """One sentence on the row that validation chooses; none where `best_over` chooses within rows, or nothing does.

    Raises:
        TableError: as `chosen_cell`.
    """
    if report.chosen_by is None or report.best_over:
        return []
    measured = _means(report.chosen_by, rows)
    if not measured:
        _require_unfinished(report.chosen_by, rows)
        return []
    best = _best(report.chosen_by, measured)
    found = f"{_shown(report.chosen_by, measured[best[0]])} {_among(measured, len(rows))}"
    if len(best) > 1:
        return [f"{report.chosen_by} does not choose between {'; '.join(best)} ({found})"]
    return [f"chosen by {report.chosen_by}: {best[0]} ({found})"]


def chosen_sentences(chosen: Mapping[str, Cell]) -> list[str]:
    """Sentences on the values that cells show, by their names, and what chose them."""
    by_validation = [f"{name}: {cell.chosen} ({cell.chosen_by})" for name, cell in chosen.items() if cell.chosen_by]
    by_test = [f"{name}: {cell.chosen}" for name, cell in chosen.items() if cell.chosen and not cell.chosen_by]
    lines = [f"values chosen by validation: {'; '.join(by_validation)}"] if by_validation else []
    if by_test:
        lines.append(f"best of the values tried, chosen by the numbers shown, which are too good: {'; '.join(by_test)}")
    return lines


def _means(metric: str, groups: Mapping[str, Sequence[FoundRun]]) -> dict[str, float]:
    """The mean of a metric over the runs of each group; groups without a number are left out."""
    values = {name: [run.value(metric) for run in runs] for name, runs in groups.items()}
    known = {name: [value for value in found if value is not None] for name, found in values.items()}
    return {name: mean(found) for name, found in known.items() if found}


def _best(metric: str, measured: Mapping[str, float]) -> list[str]:
    """The groups with the best mean, in the order in which they were tried."""
    take: Callable[..., float] = min if lower_is_better(metric) else max
    best = take(measured.values())
    return [name for name, value in measured.items() if value == best]


def _how(metric: str, measured: Mapping[str, float], best: Sequence[str], tried: int) -> str:
    """What chose, in words: `val/accuracy 87.3 %, among 5 values`, with ties and values without a number."""
    text = f"{metric} {_shown(metric, measured[best[0]])}, {_among(measured, tried)}"
    return text + (f"; equal there, and tried later: {'; '.join(best[1:])}" if len(best) > 1 else "")


def _shown(metric: str, value: float) -> str:
    unit = unit_of(metric)
    return f"{number(value, unit.name)} {unit.sign}".rstrip()


def _among(measured: Mapping[str, float], tried: int) -> str:
    return f"among {tried} values" + (f", {tried - len(measured)} without a number" if len(measured) < tried else "")


def _require_unfinished(metric: str, groups: Mapping[str, Sequence[FoundRun]]) -> None:
    """Raises a TableError if a run is finished, which should have the metric."""
    done = [run for runs in groups.values() for run in runs if run.state == "finished"]
    if done:
        raise TableError(f"report.chosen_by={metric}: no finished run has it ({done[0].lacking(metric)})")
