"""Panels whose rows have names at the left: of bars, of parts of errors, of hypotheses."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnlab.config.message_text import listed
from attnlab.learn.metric_units import SHARE
from attnlab.plots.style import EDGE, beside, legend_lines, panels
from attnlab.report.table_types import Cell, Column, Table, TableError

MOST_ROWS = 400
"""rows of a picture; some thousand would have more pixels than an image file can"""
LONGEST_NAME = 26
"""characters of a row's name in one line"""
MARGIN = 0.05
"""share of an axis beyond its numbers, so that marks there are whole"""
LEAST_POINTS = 10.0
"""percentage points of an axis"""


def row_panels(
    names: Sequence[str], number: int, note: str, labels: Sequence[str] = ()
) -> tuple[Figure, list[Axes], dict[str, str]]:
    """A figure of some panels with one row for each name, at y = 0, 1, ... from the top.

    Args:
        number: of panels.
        note, labels: of the legend.

    Returns:
        the figure, its panels, and the names broken into lines.

    Raises:
        TableError: more rows than a picture has.
    """
    if len(names) > MOST_ROWS:
        raise TableError(f"{len(names):,} rows, and a picture has at most {MOST_ROWS}; name fewer runs or rows")
    broken = {row: textwrap.fill(row, LONGEST_NAME, break_long_words=False) for row in names}
    # rows have one height
    lines = max(name.count("\n") + 1 for name in broken.values())
    height = (0.26 if lines == 1 else 0.16 * lines + 0.06) * len(broken) + 0.75
    figure, axes = panels(number, beside(number), height, legend_lines(note, labels), sharey=True)
    return figure, axes, broken


def name_rows(axis: Axes, names: Mapping[str, str], bold: str | None = None) -> None:
    """Writes the names of the rows at the left of a panel."""
    axis.set_yticks(range(len(names)), list(names.values()))
    axis.set_ylim(len(names) - 0.4, -0.6)
    for text, row in zip(axis.get_yticklabels(), names, strict=False):
        text.set_fontweight("bold" if row == bold else "normal")


def reason(axis: Axes, y: float, text: str) -> None:
    """Writes into a row why it shows nothing."""
    place: Any = {
        "xycoords": ("axes fraction", "data"),
        "xytext": (4, 0),
        "textcoords": "offset points",
        "va": "center",
    }
    behind = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
    axis.annotate(text, (0, y), fontsize=8, color=EDGE, bbox=behind, **place)


def lacking(cell: Cell | None) -> str:
    """Why a cell has no number, in words."""
    return "no run" if cell is None else ", ".join(dict.fromkeys(seed.named_state for seed in cell.seeds))


def dots(axis: Axes, values: Sequence[float], y: float, face: str = "black") -> None:
    """A dot for every seed; neighbours in three lines, so that they do not overlap."""
    spaced = [y + 0.18 * (number % 3 - 1) for number in range(len(values))]
    edge = "white" if face == "black" else "black"
    axis.plot(values, spaced, "o", color=face, markersize=4, markeredgecolor=edge, markeredgewidth=0.6, zorder=3)


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


def shown_column(table: Table, name: str | None, columns: Sequence[Column]) -> Column:
    """The column that a picture names with `metric:`, else the last of some columns.

    Raises:
        TableError: no such column.
    """
    if name is None:
        return columns[-1]
    found = next((column for column in columns if column.name == name), None)
    if found is None:
        raise TableError(f"figures: metric={name}: no such column; columns: {listed(one.name for one in columns)}")
    return found
