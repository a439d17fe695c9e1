"""One style for all pictures: legible in grey, readable at the width of a page."""

import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

GREYS = ("0.15", "0.55", "0.75", "0.35", "0.88")
"""of bars and lines, in the order they are told apart best; more than these need hatches and markers"""
HATCHES = ("", "///", "...", "xxx", "\\\\\\")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
LINES = ("-", "--", "-.", ":")
DOTS_PER_INCH = 110
LINES_A_PANEL = 4
"""more than these cannot be told apart without colour"""
PANELS_A_ROW = 3
LETTERS_AN_INCH = 14
"""of text of nine points"""
LINE = 0.17
"""inches from one line of a legend to the next"""
_SETTINGS = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "hatch.linewidth": 0.5,
    "savefig.facecolor": "white",
}


def panels(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple[Figure, Sequence[Axes]]:
    """A figure of `rows` x `columns` panels, each `width` x `height` inches, and its panels in reading order.

    Args:
        options: of `Figure.subplots`, such as sharey.
    """
    # for good: what is drawn into the panels later (legends, labels) reads them too
    mpl.rcParams.update(_SETTINGS)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False, **options).flat)


def row_panels(rows: Sequence[str], xlabel: str, ylabel: str) -> tuple[Figure, list[Axes], bool]:
    """One panel for the lines of a few rows of a table, or a panel with a title for each of many.

    Returns:
        the figure, the panel of every row, and whether these are one and the same.
    """
    together = len(rows) <= LINES_A_PANEL
    if together:
        figure, axes = panels(1, 1, 5.2, 3.0)
    else:
        figure, axes = panels(-(-len(rows) // PANELS_A_ROW), PANELS_A_ROW, 2.6, 2.2, sharey=True)
    for axis in axes[1 if together else len(rows) :]:
        axis.set_visible(False)
    for axis, row in zip(axes, rows, strict=False):
        axis.set(xlabel=xlabel, title="" if together else row)
    figure.supylabel(ylabel, fontsize="medium")
    return figure, [axes[0]] * len(rows) if together else axes[: len(rows)], together


def logarithmic(axis: Axes) -> None:
    """A logarithmic scale for what was drawn, with plain numbers where it spans little."""
    axis.set_yscale("log")
    lowest, highest = axis.get_ylim()
    if highest < 100 * lowest:
        axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter(NullFormatter())


def save(figure: Figure, path: Path) -> Path:
    """Write a picture; the file's ending says which kind (png, pdf, svg)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        # long names can leave a panel little room; the picture is whole all the same
        warnings.filterwarnings("ignore", message="constrained_layout not applied")
        figure.savefig(path, dpi=DOTS_PER_INCH)
    return path


def line_look(number: int) -> dict[str, Any]:
    """How line number `number` of a panel is told from the others, without colour."""
    return {
        "color": GREYS[number % 4],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": LINES[number % len(LINES)],
        "markersize": 4,
        "linewidth": 1.2,
    }


def fitted(text: str, figure: Figure) -> str:
    """Text in as many lines as the width of a figure asks for."""
    return textwrap.fill(text, int(figure.get_figwidth() * LETTERS_AN_INCH))
