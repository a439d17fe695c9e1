"""Pictures of a report's table: bars with seeds as dots, curves over a swept key; which kind is drawn by what."""

import itertools
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from attnlab.config.report_schema import Picture
from attnlab.config.suggest import show
from attnlab.learn.metric_units import SHARE
from attnlab.plots.style import PANELS_A_ROW, line_look, panels, save
from attnlab.report.build_table import row_name, value_of
from attnlab.report.figures.accuracy_by_length import by_length
from attnlab.report.figures.training_curves import training
from attnlab.report.table_types import Cell, Column, Table, TableError

Drawn = list[tuple[Path, str]]
"""pictures and their captions"""
LONGEST_NAME = 40
"""signs of a row's name beside its bar; longer ones go over several lines"""


def draw(table: Table, picture: Picture, out: Path, number: int) -> Drawn:
    """Draw one picture of a block.

    Args:
        out: the report's folder.
        number: of the picture in its block, part of the file's name where a kind comes twice.

    Raises:
        TableError: a picture that the runs cannot give.
    """
    kinds = {"bars": bars, "curve": curve, "by_length": by_length, "training": training, "diagnosis": diagnosis}
    alike = [other for other in table.report.figures if other.kind == picture.kind]
    name = picture.kind if len(alike) == 1 else f"{picture.kind}{number}"
    return kinds[picture.kind](table, picture, out / f"{name}.png")


def bars(table: Table, picture: Picture, path: Path) -> Drawn:
    """A panel a column: a bar for every row at its mean, a dot for every seed, a line at the published value."""
    columns = [c for c in table.columns if any(_mean(table, row, c) is not None for row in table.cells)]
    if not columns:
        raise TableError("there is no number to draw")
    width = min(len(columns), PANELS_A_ROW)
    height = 0.26 * sum(-(-len(row) // LONGEST_NAME) for row in table.cells) + 0.9
    figure, axes = panels(-(-len(columns) // width), width, 3.0 if width > 1 else 5.2, height, sharey=True)
    for axis, column in zip(axes, columns, strict=False):
        _bars(axis, table, column)
    for axis in axes[len(columns) :]:
        axis.set_visible(False)
    return [(save(figure, path), f"{table.report.title}: mean (bar) and every seed (dot){_also(table)}")]


def _also(table: Table) -> str:
    """What a caption says of published values."""
    known = any(cell.published and cell.published.value is not None for cell in table.each())
    return ", published value (line)" if known else ""


def _mean(table: Table, row: str, column: Column) -> float | None:
    cell = table.cells[row].get(column.name)
    return cell.mean if cell else None


def _values(cell: Cell | None) -> Iterable[float]:
    return cell.values.values() if cell else ()


def _bars(axis: Axes, table: Table, column: Column) -> None:
    for place, row in enumerate(table.cells):
        cell = table.cells[row].get(column.name)
        known = cell is not None and cell.published is not None and cell.published.value is not None
        if cell is None or cell.mean is None:
            where = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 7, "color": "0.4"}
            axis.annotate(" no run", (0, place), **where)
        else:
            axis.barh(place, cell.mean, height=0.7, color="0.82", edgecolor="0.4", linewidth=0.6, zorder=1)
            _dots(axis, cell, place)
        if known:
            ends = [place - 0.42, place + 0.42]
            axis.plot([cell.published.value] * 2, ends, color="black", linewidth=1.8, zorder=4, solid_capstyle="butt")
    axis.set_yticks(range(len(table.cells)), [textwrap.fill(row, LONGEST_NAME) for row in table.cells])
    axis.set_ylim(len(table.cells) - 0.4, -0.6)
    axis.set(title=column.name, xlabel=axis_label(column))
    if column.unit == SHARE.name:
        # a picture of percentages is of all of them, so that two of them can be compared
        lowest = min((value for row in table.cells.values() for value in _values(row.get(column.name))), default=0.0)
        axis.set_xlim(lowest - 2 if lowest < 0 else 0, 102)
    elif axis.get_xlim()[0] > 0:
        axis.set_xlim(0)


def _dots(axis: Axes, cell: Cell, place: float) -> None:
    values = list(cell.values.values())
    spaced = [place + 0.18 * (number % 3 - 1) for number in range(len(values))]
    axis.plot(values, spaced, "o", color="0.1", markersize=3, markeredgecolor="white", markeredgewidth=0.4, zorder=3)


def axis_label(column: Column) -> str:
    """The unit of a column, as written at an axis."""
    return SHARE.sign if column.unit == SHARE.name else column.unit


def curve(table: Table, picture: Picture, path: Path) -> Drawn:
    """A panel for every column: means over the swept key, the standard deviation as a bar, every seed as a dot."""
    key = picture.x or ""
    if key not in table.report.rows:
        raise TableError(f"report.figures: a curve over x={key} needs it among rows ({', '.join(table.report.rows)})")
    lines = _lines(table, key)
    places = _places({x for points in lines.values() for x in points.values()})
    figure, axes = panels(1, len(table.columns), 3.3, 2.7)
    for axis, column in zip(axes, table.columns, strict=True):
        for number, (name, points) in enumerate(lines.items()):
            cells = {places[x]: table.cells[row].get(column.name) for row, x in points.items()}
            _curve(axis, cells, line_look(number) | {"label": name})
            _published(axis, cells)
        axis.set_xticks(list(places.values()), [show(x) for x in places])
        axis.set(title=column.name, xlabel=key, ylabel=axis_label(column))
        if len(lines) > 1:
            axis.legend()
    return [
        (save(figure, path), f"{table.report.title}: over {key}; mean, standard deviation and every seed{_also(table)}")
    ]


def _lines(table: Table, key: str) -> dict[str, dict[str, Any]]:
    """Rows by what names a line (all keys but x), each with its value of x."""
    lines: dict[str, dict[str, Any]] = {}
    for run in table.runs:
        others = [show(value_of(other, run)) for other in table.report.rows if other != key]
        lines.setdefault(", ".join(others), {})[row_name(table.report, run)] = value_of(key, run)
    return lines


def _places(values: set[Any]) -> dict[Any, float]:
    """Where each value of x stands: numbers that grow by even steps at themselves, others side by side in order."""
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    ordered = sorted(values) if numbers else sorted(values, key=str)
    steps = {round(high - low, 9) for low, high in itertools.pairwise(ordered)} if numbers else ()
    return {value: float(value if len(steps) == 1 else place) for place, value in enumerate(ordered)}


def _curve(axis: Axes, cells: Mapping[float, Cell | None], look: Mapping[str, Any]) -> None:
    there = {x: cells[x] for x in sorted(cells) if cells[x] is not None and cells[x].mean is not None}
    if not there:
        return
    means, spreads = [cell.mean for cell in there.values()], [cell.sd or 0.0 for cell in there.values()]
    axis.errorbar(list(there), means, yerr=spreads, capsize=2, elinewidth=0.8, **look)
    for x, cell in there.items():
        axis.plot([x] * len(cell.values), list(cell.values.values()), ".", color="0.6", markersize=4, zorder=1)


def _published(axis: Axes, cells: Mapping[float, Cell | None]) -> None:
    """Published values as short lines, as in bars."""
    for x, cell in cells.items():
        if cell is not None and cell.published is not None and cell.published.value is not None:
            axis.plot([x], [cell.published.value], "_", color="black", markersize=16, markeredgewidth=1.8, zorder=4)


def diagnosis(table: Table, picture: Picture, path: Path) -> Drawn:
    """What the attentions of the best and the worst seed of each row do (`report.diagnose`; imports torch)."""
    from attnlab.report.diagnose.run_figures import draw_diagnosis

    names = [column.name for column in table.columns]
    if picture.metric not in (None, *names):
        raise TableError(f"figures: best and worst by {picture.metric}: no such column; columns: {', '.join(names)}")
    chosen: dict[Path, str] = {}
    for row, cells in table.cells.items():
        cell = cells.get(picture.metric or names[0])
        for best, word in ((True, "best"), (False, "worst")):
            found = cell.extreme(best) if cell else None
            if found is not None:
                folder = next(seed.folder for seed in cell.seeds if seed.seed == found[0])
                chosen.setdefault(folder, f"{row}, {word} seed ({found[0]})")
    files = draw_diagnosis(
        picture.quantity or "norms", [(name, folder) for folder, name in chosen.items()], path.parent
    )
    of = f"of the best and the worst seed by {picture.metric or names[0]}"
    pictures = [file for file in files if file.suffix == ".png"]
    return [(file, f"{table.report.title}: {file.stem.replace('_', ' ')}, {of}") for file in pictures]
