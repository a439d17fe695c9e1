"""Figures of a table: bars with a dot for every seed, curves over a swept key."""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from attnlab.config.message_text import listed, show
from attnlab.config.report_block import Picture
from attnlab.config.report_names import row_name
from attnlab.learn.metric_units import SHARE, lower_is_better, number
from attnlab.plots.style import (
    COLOURS,
    EDGE,
    PALE,
    STRONG,
    beside,
    empty_panel,
    legend_below,
    legend_lines,
    line_looks,
    panels,
)
from attnlab.report.build_table import value_of
from attnlab.report.figures.finished_picture import finished, interest, seeds_in_words
from attnlab.report.figures.named_rows import axis_label, dots, lacking, name_rows, reason, row_panels
from attnlab.report.table_types import Cell, Column, Drawn, Table, TableError

MOST_NAMED = 4
"""columns whose best row a caption names"""


def bars(table: Table, picture: Picture, path: Path) -> Drawn:
    """Draws a panel for each column: a bar for every row, a dot for every seed, a line at the published value."""
    columns = [column for column in table.columns if any(cell.values for cell in table.each(column))]
    if not columns:
        raise TableError("there is no number to draw")
    note = _note(table, "bar: mean of {}, dot: one seed", "bar and dot: {}")
    figure, axes, names = row_panels(list(table.cells), len(columns), note)
    for axis, column in zip(axes, columns, strict=True):
        _bars(axis, table, column, names)
    legend_below(figure, note, handles=())
    return finished(figure, path, table, [f"numbers of each row; {note}", _strongest(table), best_rows(table, columns)])


def _note(table: Table, several: str, alone: str) -> str:
    """The meaning of the marks: a text with the number of seeds, or the text for one seed; and other marks."""
    counts = [len(cell.values) for cell in table.each() if cell.values]
    known = any(cell.published_number is not None for cell in table.each())
    note = (several if max(counts, default=1) > 1 else alone).format(seeds_in_words(counts or [1]))
    return note + (", vermillion line: published value" if known else "") + interest(table)


def _strongest(table: Table) -> str:
    """The words of a caption on the row of interest."""
    return f"Blue: {table.highlight}" if table.highlight else ""


def best_rows(table: Table, columns: list[Column]) -> str:
    """The row with the best mean of each column, in words."""
    found = []
    for column in columns[:MOST_NAMED]:
        means = {cell.row: cell.mean for cell in table.each(column) if cell.mean is not None}
        if len(means) > 1:
            best = (min if lower_is_better(column.metric) else max)(means.values())
            rows = [row for row, mean in means.items() if mean == best]
            named = "all rows" if len(rows) == len(means) else listed(rows, 3)
            found.append(f"in {column.name}: {named} ({number(best, column.unit)})")
    return f"Best mean {'; '.join(found)}" if found else ""


def _bars(axis: Axes, table: Table, column: Column, names: Mapping[str, str]) -> None:
    """One panel of bars."""
    for y, (row, cells) in enumerate(table.cells.items()):
        cell = cells.get(column.name)
        if cell is None or cell.mean is None:
            reason(axis, y, lacking(cell))
        else:
            colour = STRONG if row == table.highlight else PALE
            axis.barh(y, cell.mean, height=0.7, color=colour, edgecolor=EDGE, linewidth=0.6, zorder=1)
            dots(axis, list(cell.values.values()), y)
        if cell and cell.published_number is not None:
            look: Any = {"color": COLOURS[3], "linewidth": 2.4, "zorder": 4, "solid_capstyle": "butt"}
            axis.plot([cell.published_number] * 2, [y - 0.45, y + 0.45], **look)
    name_rows(axis, names, table.highlight)
    axis.set(title=column.name, xlabel=axis_label(column))
    if column.unit == SHARE.name:
        # pictures of percentages have one scale, so that they can be compared
        lowest = min((value for cell in table.each(column) for value in cell.values.values()), default=0.0)
        axis.set_xlim(lowest - 2 if lowest < 0 else 0, 102)
    elif axis.get_xlim()[0] > 0:
        axis.set_xlim(0)


def curve(table: Table, picture: Picture, path: Path) -> Drawn:
    """Draws a panel for each column: means over the swept key, standard deviations as bars, seeds as dots."""
    key = picture.x or ""
    if key not in table.report.rows:
        raise TableError(f"report.figures: a curve over x={key} needs it among rows ({', '.join(table.report.rows)})")
    lines = _lines(table, key)
    positions = _positions({x for points in lines.values() for x in points.values()})
    looks = line_looks(list(lines), next((name for name, points in lines.items() if table.highlight in points), None))
    note = _note(table, "marker: mean of {}, error bar: standard deviation, grey dot: one seed", "marker: {}")
    named = list(lines) if len(lines) > 1 else []
    figure, axes = panels(len(table.columns), beside(len(table.columns)), 2.4, legend_lines(note, named))
    for axis, column in zip(axes, table.columns, strict=True):
        for name, points in lines.items():
            cells = {positions[x]: table.cells[row].get(column.name) for row, x in points.items()}
            _curve(axis, cells, looks[name] | {"label": name})
        if not any(cell.values for cell in table.each(column)):
            empty_panel(axis, "no run has a number")
        axis.set_xticks(list(positions.values()), [show(x) for x in positions])
        axis.set(title=column.name, xlabel=key, ylabel=axis_label(column))
    legend_below(figure, note, handles=None if named else ())
    return finished(figure, path, table, [f"over {key}; {note}", best_rows(table, list(table.columns))])


def _lines(table: Table, key: str) -> dict[str, dict[str, Any]]:
    """For each line (the values of all keys but one), its rows with their values of that key."""
    lines: dict[str, dict[str, Any]] = {}
    for run in table.runs:
        others = [show(value_of(other, run)) for other in table.report.rows if other != key]
        lines.setdefault(", ".join(others), {})[row_name(table.report, run.config)] = value_of(key, run)
    return lines


def _positions(values: set[Any]) -> dict[Any, float]:
    """The position of each value on the x axis: numbers with even steps at their value, others one apart."""
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    ordered = sorted(values) if numbers else sorted(values, key=str)
    steps = {round(high - low, 9) for low, high in itertools.pairwise(ordered)} if numbers else ()
    return {value: float(value if len(steps) == 1 else rank) for rank, value in enumerate(ordered)}


def _curve(axis: Axes, cells: Mapping[float, Cell | None], look: Mapping[str, Any]) -> None:
    """One line: means with standard deviations, seeds, and published values as short lines."""
    drawn = {x: cell for x, cell in sorted(cells.items()) if cell and cell.values}
    if drawn:
        means, spreads = [cell.mean or 0.0 for cell in drawn.values()], [cell.sd or 0.0 for cell in drawn.values()]
        axis.errorbar(list(drawn), means, yerr=spreads, capsize=3, elinewidth=0.8, **look)
    for x, cell in drawn.items():
        axis.plot([x] * len(cell.values), list(cell.values.values()), ".", color="0.45", markersize=5, zorder=1)
    for x, any_cell in cells.items():
        if any_cell and any_cell.published_number is not None:
            axis.plot(
                [x], [any_cell.published_number], "_", color=COLOURS[3], markersize=16, markeredgewidth=2.4, zorder=4
            )
