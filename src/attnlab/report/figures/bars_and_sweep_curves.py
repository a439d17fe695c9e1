"""Figures of a table: bars with a dot for every seed, curves over a swept key."""

import itertools
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from attnlab.config.message_text import show
from attnlab.config.report_block import Picture
from attnlab.config.validation.report_names import row_name, setting
from attnlab.learn.metric_units import SHARE
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
from attnlab.report.figures.row_pictures import (
    axis_label,
    dots,
    finished,
    interest,
    lacking,
    name_rows,
    reason,
    row_panels,
    seeds_in_words,
)
from attnlab.report.report_record import Cell, Column
from attnlab.report.table_types import Drawn, Table, TableError


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
    strongest = f". Blue: {table.highlight}" if table.highlight else ""
    return finished(figure, path, table, f"numbers of each row; {note}{strongest}")


def _note(table: Table, several: str, alone: str) -> str:
    """The meaning of the marks: a text with the number of seeds, or the text for one seed; and other marks."""
    counts = [len(cell.values) for cell in table.each() if cell.values]
    note = (several if max(counts, default=1) > 1 else alone).format(seeds_in_words(counts or [1]))
    known = any(cell.published_number is not None for cell in table.each())
    return note + (", vermillion line: published value" if known else "") + interest(table)


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
    # the rows of a line have the same values of all other keys
    lines: dict[str, dict[str, Any]] = defaultdict(dict)
    for run in table.runs:
        others = [show(setting(other, run.config)) for other in table.report.rows if other != key]
        lines[", ".join(others)][row_name(table.report, run.config)] = setting(key, run.config)
    positions = _positions({x for rows in lines.values() for x in rows.values()})
    looks = line_looks(list(lines), next((name for name, rows in lines.items() if table.highlight in rows), None))
    note = _note(table, "marker: mean of {}, error bar: standard deviation, grey dot: one seed", "marker: {}")
    named = list(lines) if len(lines) > 1 else []
    columns = beside(len(table.columns))
    figure, axes = panels(len(table.columns), columns, 2.4, legend_lines(note, named))
    for axis, column in zip(axes, table.columns, strict=True):
        for name, rows in lines.items():
            cells = {positions[x]: cell for row, x in rows.items() if (cell := table.cells[row].get(column.name))}
            _curve(axis, cells, looks[name] | {"label": name})
        if not any(cell.values for cell in table.each(column)):
            empty_panel(axis, "no run has a number")
        axis.set_xticks(list(positions.values()), [show(x) for x in positions])
        axis.set(title=column.name, xlabel=key, ylabel=axis_label(column))
    legend_below(figure, note, handles=None if named else ())
    return finished(figure, path, table, f"over {key}; {note}")


def _positions(values: set[Any]) -> dict[Any, float]:
    """The position of each value on the x axis: numbers with even steps at their value, others one apart."""
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    ordered = sorted(values) if numbers else sorted(values, key=str)
    steps = {round(high - low, 9) for low, high in itertools.pairwise(ordered)} if numbers else ()
    return {value: float(value if len(steps) == 1 else rank) for rank, value in enumerate(ordered)}


def _curve(axis: Axes, cells: Mapping[float, Cell], look: Mapping[str, Any]) -> None:
    """One line: means with standard deviations, seeds, and published values as short lines."""
    drawn = {x: cell for x, cell in sorted(cells.items()) if cell.values}
    if drawn:
        means, spreads = [cell.mean or 0.0 for cell in drawn.values()], [cell.sd or 0.0 for cell in drawn.values()]
        axis.errorbar(list(drawn), means, yerr=spreads, capsize=3, elinewidth=0.8, **look)
    for x, cell in drawn.items():
        axis.plot([x] * len(cell.values), list(cell.values.values()), ".", color="0.45", markersize=5, zorder=1)
    published = {x: cell.published_number for x, cell in cells.items() if cell.published_number is not None}
    mark: Any = {"color": COLOURS[3], "markersize": 16, "markeredgewidth": 2.4, "zorder": 4}
    axis.plot(list(published), list(published.values()), "_", **mark)
