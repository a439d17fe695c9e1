"""Builds a table from runs: rows by values of keys, columns by metrics, means over seeds, published values.

With `best_over` a cell shows one of the values tried: by the best mean over seeds of a validation metric
(`report.chosen_by`), else by the numbers shown. Without `best_over` every value is a row, and a note names the row with
the best mean. Means are compared over the seeds that all values have; a value at which a run diverged is not chosen
while there is another.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, product
from typing import Any

from attnlab.config.message_text import counted, hint, listed, show
from attnlab.config.nearest_word import nearest
from attnlab.config.problem import ConfigError, Problem
from attnlab.config.report_block import Average, Report
from attnlab.config.run_identity import task_and_split, unique_text
from attnlab.config.validation.report_names import setting
from attnlab.learn.metric_units import lower_is_better, number, same_unit, unit_of
from attnlab.report.analysis_record import ReportSeed
from attnlab.report.published_numbers import Published, Value
from attnlab.report.report_record import Cell, Column
from attnlab.report.runs.read_runs import ReportRun, grouped, meets, runs_by_row, short_name
from attnlab.report.statistics.differences import mean
from attnlab.report.statistics.length_breakdown import with_test_sets
from attnlab.report.table_types import Table, TableError, cell_of

ONLY = "the only value tried"


def columns_of(report: Report) -> list[Column]:
    columns = []
    for name, value in report.columns.items():
        parts: Any = {"metric": value} if isinstance(value, str) else value
        unit = unit_of(parts["metric"]).name
        columns.append(Column(str(name), parts["metric"], unit, dict(parts.get("where") or {})))
    return columns


def make_table(report: Report, runs: Sequence[ReportRun], published: Published | None = None) -> Table:
    """Cells of every row and column.

    Raises:
        ConfigError: `report.chosen_by` is no validation metric.
        TableError: one mean would be over runs of different settings, or runs are on different data.
    """
    if report.chosen_by is not None and not report.chosen_by.startswith("val/"):
        text = "expected a validation metric, such as val/accuracy; test numbers choose nothing"
        raise ConfigError([Problem("report.chosen_by", f"={report.chosen_by}: {text}")], "report.py")
    _require_one_data(runs)
    columns, by_row = columns_of(report), runs_by_row(report, runs)
    data_seeds = grouped((run.data_seed, run.config["task"]["name"]) for run in runs)
    varied = {task for task, seeds in data_seeds.items() if len(set(seeds)) > 1}
    cells: dict[str, dict[str, Cell]] = {row: {} for row in by_row}
    for row, column in product(by_row, columns):
        where = column.where.items()
        members = [run for run in by_row[row] if all(meets(setting(key, run.config), wanted) for key, wanted in where)]
        if not members:
            continue
        tried, known, keys = {}, _published(published, row, column), report.best_over
        values = grouped((run, ", ".join(f"{key}={show(setting(key, run.config))}" for key in keys)) for run in members)
        for value, of_value in values.items():
            _require_one_setting(row, column, of_value)
            ordered = sorted(of_value, key=lambda run: (run.data_seed or 0, run.seed))
            seeds = [_seed(run, column.metric, run.config["task"]["name"] in varied) for run in ordered]
            tried[value] = cell_of(row, column, seeds, known, value)
        cells[row][column.name] = _chosen_cell(report, tried, values)
    if report.average is not None:
        columns = [*columns, _with_average(report.average, cells, columns, published)]
    table = Table(report, columns, cells, runs, published)
    return replace(table, cells={row: with_test_sets(of_row, table.by_folder) for row, of_row in cells.items()})


def _seed(run: ReportRun, metric: str, with_data: bool) -> ReportSeed:
    """The number of a run, with its data seed if asked for."""
    value = run.value(metric)
    reason = run.lacking(metric) if value is None and run.state == "finished" else run.reason
    data_seed = run.data_seed if with_data else None
    return ReportSeed(
        seed=run.seed, value=value, state=run.state, reason=reason, folder=str(run.folder), data_seed=data_seed
    )


def _require_one_setting(row: str, column: Column, runs: Sequence[ReportRun]) -> None:
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


def _require_one_data(runs: Sequence[ReportRun]) -> None:
    """Checks that runs with the same task settings that count were trained and tested on the same data, by its hash."""
    trained = [run for run in runs if (run.state == "finished" or run.diverged) and run.data.get("hash")]
    for group in grouped((run, unique_text(run.config["task"])) for run in trained).values():
        by_data = grouped((short_name(run.folder), str(run.data["hash"])) for run in group)
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
    column = Column(average.name, averaged[0].metric, averaged[0].unit, of=list(average.of))
    for row, of_row in cells.items():
        if of_row.keys() >= set(average.of):
            parts = [of_row[name] for name in average.of]
            by_key = [{seed.key: seed for seed in part.seeds} for part in parts]
            seeds = [
                _averaged([part.get(key) for part in by_key]) for key in dict.fromkeys(chain.from_iterable(by_key))
            ]
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


def _chosen_cell(report: Report, cells: Mapping[str, Cell], runs: Mapping[str, Sequence[ReportRun]]) -> Cell:
    """The cell, of one row and column by value, with the best value of the keys in `best_over`."""
    first, *others = cells.values()
    if not others:
        return replace(first, chosen_by=ONLY) if first.chosen else first
    choice = _choice(report.chosen_by or first.column.metric, runs, is_tested=report.chosen_by is None)
    if choice is None:
        return replace(first, chosen="")
    (best, *ties), value, among = choice
    if report.chosen_by is None:
        return cells[best]
    equal = f"; equal there, and tried later: {'; '.join(ties)}" if ties else ""
    return replace(cells[best], chosen_by=f"{report.chosen_by} {value}, {among}{equal}")


def choice_sentences(table: Table) -> list[str]:
    """Sentences on the values that cells show and what chose them, or on the row that validation chooses."""
    cells = [cell for cell in table.each() if cell.chosen]
    shown = grouped((f"{cell.row}, {cell.column.name}: {cell.chosen}", cell.chosen_by or "") for cell in cells)
    only, by_test = shown.pop(ONLY, []), shown.pop("", [])
    by_validation = [f"{words} ({why})" for why, each in shown.items() for words in each]
    lines = [f"values chosen by validation: {'; '.join(by_validation)}"] if by_validation else []
    lines += [f"{ONLY}: {'; '.join(only)}"] if only else []
    if by_test:
        lines.append(f"best of the values tried, chosen by the numbers shown, which are too good: {'; '.join(by_test)}")
    metric = table.report.chosen_by
    return lines if metric is None or table.report.best_over else [*lines, *_chosen_rows(table, metric)]


def _chosen_rows(table: Table, metric: str) -> list[str]:
    """The row that a validation metric chooses, among the rows of each task and of each condition of columns."""
    sentences = []
    for condition, part in table.by_condition().items():
        by_task = grouped((run, task_and_split(run.config)) for run in part.runs)
        for task, runs in by_task.items():
            if choice := _choice(metric, runs_by_row(table.report, runs)):
                best, value, among = choice
                place = ", ".join(filter(None, [task if len(by_task) > 1 else "", condition]))
                name = f"{metric} ({place})" if place else metric
                opening = f"chosen by {name}:" if len(best) == 1 else f"{name} does not choose between"
                sentences.append(f"{opening} {'; '.join(best)} ({value} {among})")
    return sentences


def _choice(
    metric: str, groups: Mapping[str, Sequence[ReportRun]], is_tested: bool = False
) -> tuple[list[str], str, str] | None:
    """The values with the best mean over common seeds, as tried; this mean, and among which values, in words.

    None while no run has a number.

    Args:
        is_tested: whether the metric is the shown one; values without a common seed are compared all the same then.
    """
    numbers = {
        name: {(run.data_seed, run.seed): value for run in runs if (value := run.value(metric)) is not None}
        for name, runs in groups.items()
    }
    having = {name: known for name, known in numbers.items() if known}
    if not having:
        if not is_tested and (done := [run for runs in groups.values() for run in runs if run.state == "finished"]):
            raise TableError(f"report.chosen_by={metric}: no finished run has it ({done[0].lacking(metric)})")
        return None
    # where runs diverge at every value, all of them are compared
    whole = {name: known for name, known in having.items() if not any(run.diverged for run in groups[name])} or having
    # so too where a number is not finite, which is worse than any other
    sound = {name: known for name, known in whole.items() if not any(run.overflows(metric) for run in groups[name])}
    sound = sound or whole
    common = set.intersection(*(set(known) for known in sound.values()))
    if not common and not is_tested:
        raise TableError(f"report.chosen_by={metric}: no seed has it at all values ({listed(sound, 8)})")
    means = {name: mean([known[seed] for seed in common or known]) for name, known in sound.items()}
    top, unit = (min if lower_is_better(metric) else max)(means.values()), unit_of(metric)
    among = [f"among {len(groups)} values"]
    if lacking := len(groups) - len(having):
        among.append(f"{lacking} without a number")
    if diverged := len(having) - len(whole):
        among.append(f"{diverged} with a run that diverged")
    if overflowed := len(whole) - len(sound):
        among.append(f"{overflowed} with a number that is not finite")
    if any(set(known) != common for known in sound.values()):
        among.append(f"over the {counted(len(common), 'seed')} that all of them have")
    shown = f"{number(top, unit.name)} {unit.sign}".rstrip()
    return [name for name, value in means.items() if value == top], shown, ", ".join(among)
