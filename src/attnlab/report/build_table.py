"""Builds a table from runs: rows by values of keys, columns by metrics, means over seeds, published values."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from attnlab.config.message_text import hint, listed, show
from attnlab.config.nearest_word import nearest
from attnlab.config.problem import ConfigError
from attnlab.config.report_block import Average, Report
from attnlab.config.run_identity import unique_text
from attnlab.config.validation.report_names import setting
from attnlab.learn.metric_units import same_unit
from attnlab.report.analysis_record import ReportSeed
from attnlab.report.chosen_value import chosen_cell
from attnlab.report.published_numbers import Published, Value
from attnlab.report.report_record import Cell, Column
from attnlab.report.runs.read_runs import FoundRun, grouped, meets, runs_by_row, short_name
from attnlab.report.shortcuts import with_shortcuts
from attnlab.report.statistics.differences import mean
from attnlab.report.statistics.length_breakdown import with_test_sets
from attnlab.report.table_types import Table, TableError, cell_of, column_of


def columns_of(report: Report) -> list[Column]:
    """The columns of a report.

    Raises:
        TableError: a column is neither a metric nor a metric with conditions.
    """
    columns = []
    for name, value in report.columns.items():
        # not checked yet: a report block takes any values here
        parts: Any = {"metric": value} if isinstance(value, str) else value
        known = isinstance(parts, Mapping) and parts.keys() <= {"metric", "where"}
        if not known or not isinstance(parts.get("metric"), str):
            raise TableError(f"report.columns.{name}={show(value)}: expected a metric, or metric: ... and where: ...")
        columns.append(column_of(str(name), parts["metric"], parts.get("where")))
    return columns


def make_table(report: Report, runs: Sequence[FoundRun], published: Published | None = None) -> Table:
    """Cells of every row and column.

    Raises:
        ConfigError: `report.chosen_by` is no validation metric.
        TableError: one mean would be over runs of different settings, or runs are on different data.
    """
    if report.chosen_by is not None and not report.chosen_by.startswith("val/"):
        problem = f"report.chosen_by={report.chosen_by}: expected a validation metric, such as val/accuracy"
        raise ConfigError([f"{problem}; test numbers choose nothing"], "report.py")
    _require_one_data(runs)
    columns, by_row, varied = columns_of(report), runs_by_row(report, runs), _with_several_data(runs)
    cells: dict[str, dict[str, Cell]] = {row: {} for row in by_row}
    for row, column in product(by_row, columns):
        where = column.where.items()
        members = [run for run in by_row[row] if all(meets(setting(key, run.config), wanted) for key, wanted in where)]
        if members:
            cells[row][column.name] = _cell(report, row, column, members, _published(published, row, column), varied)
    if report.average is not None:
        columns = [*columns, _with_average(report.average, cells, columns, published)]
    table = Table(report, columns, cells, runs, published)
    for finish in (with_test_sets, with_shortcuts):
        cells = {row: finish(of_row, table.by_folder) for row, of_row in cells.items()}
    return replace(table, cells=cells)


def _with_several_data(runs: Sequence[FoundRun]) -> set[str]:
    """The names of tasks whose runs differ in their data seeds."""
    seeds = grouped((run.data_seed, run.config["task"]["name"]) for run in runs)
    return {task for task, numbers in seeds.items() if len(set(numbers)) > 1}


def _cell(
    report: Report,
    row: str,
    column: Column,
    runs: Sequence[FoundRun],
    published: Value | None,
    varied: Collection[str],
) -> Cell:
    """The cell of some runs; with `best_over`, of the runs with the best value.

    Args:
        varied: names of tasks with several data seeds.
    """
    groups = grouped(
        (run, ", ".join(f"{key}={show(setting(key, run.config))}" for key in report.best_over)) for run in runs
    )
    cells = {}
    for chosen, members in groups.items():
        _require_one_setting(row, column, members)
        members = sorted(members, key=lambda run: (run.data_seed or 0, run.seed))
        seeds = [_seed(run, column.metric, run.config["task"]["name"] in varied) for run in members]
        cells[chosen] = cell_of(row, column, seeds, published, chosen)
    return chosen_cell(report, cells, groups)


def _seed(run: FoundRun, metric: str, with_data: bool) -> ReportSeed:
    """The number of a run, with its data seed if asked for."""
    value = run.value(metric)
    reason = run.lacking(metric) if value is None and run.state == "finished" else run.reason
    data_seed = run.data_seed if with_data else None
    return ReportSeed(
        seed=run.seed, value=value, state=run.state, reason=reason, folder=str(run.folder), data_seed=data_seed
    )


def _require_one_setting(row: str, column: Column, runs: Sequence[FoundRun]) -> None:
    """Checks that the runs of a mean differ in their seeds and data seeds only."""
    flat = [run.settings for run in runs]
    first, all_keys = flat[0], set().union(*flat)
    keys = sorted(key for key in all_keys if any(settings.get(key) != first.get(key) for settings in flat))
    if keys:
        add = "model" if any(key.startswith("model.") for key in keys) else keys[0]
        raise TableError(
            f"row {row}, column {column.name}: runs that differ in {listed(keys, 6)} would meet in one mean; add what "
            f"tells them apart to rows=... (such as {add}), or name fewer runs"
        )
    seeds = Counter((run.data_seed, run.seed) for run in runs)
    if len(seeds) < len(runs):
        folders = listed([str(run.folder) for run in runs if seeds[run.data_seed, run.seed] > 1], 4)
        raise TableError(f"row {row}, column {column.name}: the same run twice ({folders}); name each once")


def _require_one_data(runs: Sequence[FoundRun]) -> None:
    """Checks that runs with the same task settings that count were trained and tested on the same data, by its hash."""
    trained = [run for run in runs if (run.state == "finished" or run.diverged) and run.data.get("hash")]
    for alike in grouped((run, unique_text(run.config["task"])) for run in trained).values():
        by_data = grouped((short_name(run.folder), str(run.data["hash"])) for run in alike)
        if len(by_data) > 1:
            folders = "; ".join(f"data {name}: {listed(names, 4)}" for name, names in by_data.items())
            raise TableError(
                f"runs on different data would meet in a mean or difference ({folders}); train them anew on one, or "
                "name fewer runs (a task whose data changes needs another version)"
            )


def _with_average(
    average: Average, cells: dict[str, dict[str, Cell]], columns: Sequence[Column], published: Published | None
) -> Column:
    """Adds the mean of other columns to every row that has all of them; a seed needs all of them too."""
    names = [column.name for column in columns]
    if unknown := [name for name in average.of if name not in names]:
        raise TableError(f"report.average.of: no column {unknown[0]}{hint(nearest(unknown[0], names))}")
    averaged = [column for column in columns if column.name in average.of]
    if len(units := {column.unit for column in averaged}) > 1:
        raise TableError(f"report.average.of: {listed(sorted(units))} have no mean in common")
    column = column_of(average.name, averaged[0].metric, of=average.of)
    for row, of_row in cells.items():
        if of_row.keys() >= set(average.of):
            parts = [of_row[name] for name in average.of]
            by_key = [{seed.key: seed for seed in part.seeds} for part in parts]
            seeds = [_averaged([part.get(seed.key) for part in by_key]) for seed in parts[0].seeds]
            of_row[average.name] = cell_of(row, column, seeds, _published(published, row, column))
    return column


def _averaged(parts: Sequence[ReportSeed | None]) -> ReportSeed:
    """The mean of one seed's numbers in several columns; of parts that diverged, that they did."""
    known = [part for part in parts if part is not None]
    numbers = [part.value for part in known if part.value is not None]
    if len(numbers) == len(parts):
        return replace(known[0], value=mean(numbers), state="finished", reason="")
    if diverged := next((part for part in known if part.diverged), None):
        return replace(diverged, value=None)
    lacking = next((part for part in known if part.value is None), None)
    return lacking or replace(known[0], value=None, state="missing", reason="a part of the average is missing")


def _published(published: Published | None, row: str, column: Column) -> Value | None:
    """The published value of a cell.

    Raises:
        TableError: its unit is not the column's, so that a difference would mean nothing.
    """
    value = published.cells.get((row, column.name)) if published else None
    if value is None or published is None:
        return None
    unit = value.unit or published.unit
    if value.value is not None and not same_unit(column.unit, unit):
        raise TableError(
            f"row {row}, column {column.name}: {published.table} gives {unit} and {column.metric} is shown in "
            f"{column.unit}; name the metric that was published, or the published number's unit"
        )
    return value
