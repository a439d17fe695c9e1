"""Shortcuts of a table's tasks beside its numbers, and thresholds of success that a shortcut reaches.

Runs record in result.json what answers without understanding get (`attnlab.tasks.shortcuts`); runs of earlier versions
have none, and their tables say nothing about it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from attnlab.config.report_block import Success
from attnlab.learn.metric_units import best_first, number, problem, scaled, unit_of
from attnlab.report.failures.failure_statistics import reaches
from attnlab.report.report_record import Cell
from attnlab.report.runs.read_runs import FoundRun
from attnlab.report.statistics.differences import mean


def shortcuts_of(metric: str, run: FoundRun) -> list[tuple[str, float]]:
    """Names and scores of shortcuts in a metric of a run, in the unit of the metric; the best one first."""
    # the rule that selects weights changes no shortcut
    recorded = run.result.get("shortcuts", {}).get(metric.replace("test_paper_rule/", "test/", 1), {})
    known = [(name, scaled(metric, value)) for name, value in recorded.items() if not problem(metric, value)]
    return best_first(metric, known)


def with_shortcuts(cells: Mapping[str, Cell], runs: Mapping[str, FoundRun]) -> dict[str, Cell]:
    """The cells of one row, by column, with the shortcuts of their runs: means, where runs have different data."""
    complete: dict[str, Cell] = {}
    for name, cell in cells.items():
        metric = cell.column.metric
        parts = [complete[part].shortcuts for part in cell.column.of]
        known = parts or list(filter(None, (shortcuts_of(metric, run) for run in cell.measured(runs))))
        each = [dict(part) for part in known]
        shared = [shortcut for shortcut in each[0] if all(shortcut in part for part in each)] if each else []
        means = [(shortcut, mean([part[shortcut] for part in each])) for shortcut in shared]
        complete[name] = replace(cell, shortcuts=best_first(metric, means))
    return complete


def reached_by_shortcut(success: Success, cells: Iterable[Cell], runs: Mapping[str, FoundRun]) -> list[str]:
    """A sentence on the shortcuts that reach the threshold of success, in its column or in its validation."""
    reached = {
        f"{name} has {number(value, cell.column.unit)} {unit_of(metric).sign}".rstrip() + f" in {metric}": None
        for cell in cells
        if cell.column.name == success.column
        for run in cell.measured(runs)
        for metric in filter(None, (cell.column.metric, success.validation))
        for name, value in shortcuts_of(metric, run)[:1]
        if reaches(success, value)
    }
    warning = "the threshold is not above a shortcut, so that runs that have learned nothing count as successful"
    return [f"{warning}: {'; '.join(reached)}"] if reached else []
