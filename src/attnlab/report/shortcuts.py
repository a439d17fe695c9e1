"""Shortcuts of a table's tasks beside its numbers, and thresholds of success that a shortcut reaches.

Runs record in result.json what answers without understanding get (`attnlab.tasks.shortcuts`); runs of earlier versions
have none, and their tables say nothing about it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from attnlab.config.report_block import Success
from attnlab.learn.declaration_checks import reaches
from attnlab.learn.metric_units import best_first, number, problem, scaled, unit_of
from attnlab.report.report_record import ReportFile
from attnlab.report.runs.read_runs import FoundRun
from attnlab.report.statistics.differences import mean
from attnlab.report.statistics.test_set_error import measured_runs
from attnlab.report.table_types import Cell, Table


def shortcuts_of(metric: str, run: FoundRun) -> list[tuple[str, float]]:
    """Names and scores of shortcuts in a metric of a run, in the unit of the metric; the best one first."""
    # the rule that selects weights changes no shortcut
    recorded = run.result.get("shortcuts", {}).get(metric.replace("test_paper_rule/", "test/", 1), {})
    known = [(name, scaled(metric, value)) for name, value in recorded.items() if not problem(metric, value)]
    return best_first(metric, known)


def with_shortcuts(cells: Mapping[str, Cell], runs: Mapping[str, FoundRun]) -> dict[str, Cell]:
    """The cells of one row, by column, with the shortcuts of their runs: means, where runs have different data.

    Args:
        runs: of the table, by their folders (`Table.by_folder`).
    """
    found: dict[str, Cell] = {}
    for name, cell in cells.items():
        metric = cell.column.metric
        parts = [found[part].shortcuts for part in cell.column.of]
        known = parts or list(filter(None, (shortcuts_of(metric, run) for run in measured_runs(cell, runs))))
        each = [dict(part) for part in known]
        shared = [one for one in each[0] if all(one in part for part in each)] if each else []
        means = [(one, mean([part[one] for part in each])) for one in shared]
        found[name] = replace(cell, shortcuts=best_first(metric, means))
    return found


def shortcut_rows(cells: Iterable[tuple[str, str, Sequence[tuple[str, float]]]]) -> dict[str, dict[str, str]]:
    """Rows of a table (`shortcut: most frequent answer`), numbers as text by column: the best one of each cell.

    Args:
        cells: column, unit, and the shortcuts of a cell, the best one first.
    """
    found: dict[str, dict[tuple[str, str], list[float]]] = {}
    best: dict[str, None] = {}
    for column, unit, shortcuts in cells:
        best |= {name: None for name, _ in shortcuts[:1]}
        for name, value in shortcuts:
            found.setdefault(name, {}).setdefault((column, unit), []).append(value)
    return {
        f"shortcut: {name}": {column: _range(values, unit) for (column, unit), values in found[name].items()}
        for name in best
    }


def _range(values: Sequence[float], unit: str) -> str:
    """The lowest and the highest number, as rows may have different data; one where they are written alike."""
    return " to ".join(dict.fromkeys(number(end, unit) for end in (min(values), max(values))))


def rows_of_table(table: Table) -> dict[str, dict[str, str]]:
    """As `shortcut_rows`."""
    return shortcut_rows((cell.column.name, cell.column.unit, cell.shortcuts) for cell in table.each())


def rows_of_report(report: ReportFile) -> dict[str, dict[str, str]]:
    """As `shortcut_rows`."""
    units = report.units()
    return shortcut_rows((cell.column, units[cell.column], cell.shortcuts) for _, cell in report.each())


def reached_by_shortcut(success: Success, table: Table) -> list[str]:
    """A sentence on the shortcuts that reach the threshold of success, in its column or in its validation."""
    column = next(column for column in table.columns if column.name == success.column)
    said = {
        f"{name} has {number(value, column.unit)} {unit_of(metric).sign}".rstrip() + f" in {metric}": None
        for cell in table.each(column)
        for run in measured_runs(cell, table.by_folder)
        for metric in filter(None, (column.metric, success.validation))
        for name, value in shortcuts_of(metric, run)[:1]
        if reaches(success, value)
    }
    warning = "the threshold is not above a shortcut, so that runs that have learned nothing count as successful"
    return [f"{warning}: {'; '.join(said)}"] if said else []
