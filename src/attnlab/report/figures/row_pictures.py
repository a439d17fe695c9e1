"""Parts that pictures share: rows with names at the left, lines of rows in one panel or several, axes, words."""

import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from attnlab.config.message_text import listed
from attnlab.learn.metric_units import SHARE
from attnlab.plots.png_caption import span
from attnlab.plots.style import EDGE, legend_lines, line_looks, panel_columns, panel_title, panels
from attnlab.report.report_record import Cell, Column
from attnlab.report.statistics.differences import mean
from attnlab.report.table_types import Table, TableError

LINES_TOGETHER = 6
"""rows whose lines share one panel"""
MOST_ROWS = 400
"""rows of a picture; some thousand would have more pixels than an image file can"""
LONGEST_NAME = 26
"""characters of a row's name in one line"""
MARGIN = 0.05
"""share of an axis beyond its numbers, so that marks there are whole"""
LEAST_POINTS = 10.0
"""percentage points of an axis"""
MOST_APART = 1.0
"""percentage points between the shortcuts of rows that are tested on the same data"""
MEANS_AND_SEEDS = "marker: mean of {}, dot: one seed"
"""marks of a line of means over seeds"""
Drawn = tuple[Figure, str]
"""a figure, and what it shows and its marks mean: a part of its caption"""


def seeds_in_words(counts: Collection[int]) -> str:
    """Number of seeds behind the marks of a picture: `3 seeds`, `1 to 3 seeds`, `one seed`."""
    return "one seed" if max(counts) == 1 else f"{span(counts)} seeds"


def interest(table: Table) -> str:
    """The meaning of bold lines and names, at the end of a note; empty without a row of interest."""
    return ", bold: row of interest" if table.highlight else ""


def marks_note(table: Table, several: str, alone: str) -> str:
    """The meaning of the marks: a text with the number of seeds, or the text for one seed; and other marks."""
    counts = [len(cell.values) for cell in table.each() if cell.values]
    note = (several if max(counts, default=1) > 1 else alone).format(seeds_in_words(counts or [1]))
    known = any(cell.published_number is not None for cell in table.each())
    note += ", vermillion line: published value" if known else ""
    has_shortcut = any(shortcut_of(table, column) for column in table.columns)
    note += ", dotted line: best recorded shortcut" if has_shortcut else ""
    return note + interest(table)


def shortcut_of(table: Table, column: Column) -> float | None:
    """The best shortcut of a column of percentages; None where its rows have other ones, so of other data."""
    best = [cell.shortcuts[0][1] for cell in table.each(column) if cell.shortcuts]
    same = column.unit == SHARE.name and best and max(best) - min(best) < MOST_APART
    return mean(best) if same else None


def mark_shortcut(axis: Axes, table: Table, column: Column, vertical: bool = False, color: str = EDGE) -> None:
    """A dotted line at the best shortcut of a column."""
    if value := shortcut_of(table, column):
        (axis.axvline if vertical else axis.axhline)(value, color=color, linestyle=":", linewidth=1.4, zorder=2)


def means_and_seeds(
    axis: Axes, cells: Iterable[tuple[float, Cell]], look: Mapping[str, Any], seeds: bool = True
) -> None:
    """A line through the means of cells, each with its place on the x axis, and with a dot for each of several
    seeds."""
    drawn = sorted(((x, cell) for x, cell in cells if cell.values), key=lambda pair: pair[0])
    if not drawn:
        return
    [line] = axis.plot([x for x, _ in drawn], [cell.mean or 0.0 for _, cell in drawn], **look)
    for x, cell in drawn:
        values = list(cell.values.values()) if seeds and len(cell.values) > 1 else []
        axis.plot([x] * len(values), values, ".", color=line.get_color(), markersize=4, alpha=0.6, zorder=1)


def title_panel(axis: Axes, name: str, columns: int, is_bold: bool) -> None:
    """The title of one of so many panels in a row; of the row of interest in bold."""
    axis.set_title(panel_title(name, columns), fontweight="bold" if is_bold else "normal")


def row_panels(
    rows: Sequence[str], number: int, note: str, labels: Sequence[str] = (), bold: str | None = None
) -> tuple[Figure, list[Axes]]:
    """A figure of so many panels with a line for each row, at y = 0, 1, ... from the top, and its name at the left.

    Args:
        note, labels: of the legend.
        bold: the row with a bold name.
    """
    if len(rows) > MOST_ROWS:
        raise TableError(f"{len(rows):,} rows, and a picture has at most {MOST_ROWS}; name fewer runs or rows")
    names = [textwrap.fill(row, LONGEST_NAME, break_long_words=False) for row in rows]
    # rows have one height
    lines = max(name.count("\n") + 1 for name in names)
    height = (0.26 if lines == 1 else 0.16 * lines + 0.06) * len(names) + 0.75
    figure, axes = panels(number, panel_columns(number), height, legend_lines(note, labels), sharey=True)
    for axis in axes:
        axis.set_yticks(range(len(names)), names)
        axis.set_ylim(len(names) - 0.4, -0.6)
        for text, row in zip(axis.get_yticklabels(), rows, strict=False):
            text.set_fontweight("bold" if row == bold else "normal")
    return figure, axes


def reason(axis: Axes, y: float, text: str) -> None:
    """Writes into a row why it shows nothing."""
    behind = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
    place: Any = {"xycoords": ("axes fraction", "data"), "xytext": (4, 0), "textcoords": "offset points"}
    axis.annotate(text, (0, y), fontsize=8, va="center", color=EDGE, bbox=behind, **place)


def lacking(cell: Cell | None) -> str:
    """Why a cell has no number, in words."""
    return cell.states if cell else "no run"


def dots(axis: Axes, values: Sequence[float], y: float, face: str = "black") -> None:
    """A dot for every seed; neighbours in three lines, so that they do not overlap."""
    spaced = [y + 0.18 * (number % 3 - 1) for number in range(len(values))]
    edge = "white" if face == "black" else "black"
    axis.plot(values, spaced, "o", color=face, markersize=4, markeredgecolor=edge, markeredgewidth=0.6, zorder=3)


class RowLine(NamedTuple):
    """A row to draw: its panel, its place among the rows, the style of its line."""

    row: str
    axis: Axes
    at: int
    look: dict[str, Any]


def line_panels(
    table: Table, labels: Mapping[str, str], note: str, heights: tuple[float, float], named: bool = True
) -> tuple[Figure, list[Axes], list[RowLine]]:
    """A figure for a line of every row: all in one panel if they are few, else each in a panel of its own.

    Args:
        labels: what a row is called in the legend, or above its panel.
        heights: inches of a single panel, and of each of several.
        named: whether the legend of a single panel names the rows.

    Returns:
        the figure, the lowest panel of each column, and the rows.
    """
    together = len(labels) <= LINES_TOGETHER
    number, columns = (1, 1) if together else (len(labels), panel_columns(len(labels)))
    lines = legend_lines(note, list(labels.values()) if together and named else [])
    figure, axes = panels(number, columns, heights[0] if together else heights[1], lines, sharex=True, sharey=True)
    rows = []
    for at, (row, look) in enumerate(line_looks(list(labels), table.highlight).items()):
        axis = axes[0 if together else at]
        if not together:
            title_panel(axis, labels[row], columns, row == table.highlight)
        rows.append(RowLine(row, axis, at, look | {"label": labels[row]} | ({} if together else {"linestyle": "-"})))
    for axis in axes[-columns:]:
        axis.tick_params(labelbottom=True)
    return figure, axes[-columns:], rows


def label_counts(axes: Sequence[Axes], name: str) -> None:
    """Names the x axes of some panels, with round whole numbers."""
    for axis in axes:
        axis.set_xlabel(name)
        axis.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 2.5, 5, 10]))


def axis_label(column: Column) -> str:
    """The unit of a column at an axis."""
    return SHARE.sign if column.unit == SHARE.name else column.unit


def limits(values: Sequence[float], column: Column) -> tuple[float, float]:
    """Ends of an axis around some numbers of a column; an axis of percentages has ten points or more."""
    low, high = min(values), max(values)
    if column.unit == SHARE.name and (missing := LEAST_POINTS - (high - low)) > 0:
        # beside the numbers, but not beyond 0 and 100 %
        high = min(high + missing / 2, max(100.0, high))
        low = max(high - LEAST_POINTS, min(0.0, low))
        high = low + LEAST_POINTS
    margin = MARGIN * (high - low) or MARGIN * abs(low) or 1.0
    return low - margin, high + margin


def shown_column(name: str | None, columns: Sequence[Column]) -> Column:
    """The column that a picture names with `metric:`, else the last of some columns."""
    named = [column for column in columns if name in (None, column.name)]
    if not named:
        raise TableError(f"figures: metric={name}: no such column; columns: {listed(known.name for known in columns)}")
    return named[-1]
