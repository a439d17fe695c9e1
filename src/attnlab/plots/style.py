"""Common style of all figures: readable without colour and at the width of a page."""

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
"""of bars and lines, from best to least distinguishable; more of them need hatches and markers"""
HATCHES = ("", "///", "...", "xxx", "\\\\\\")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
LINES = ("-", "--", "-.", ":")
DOTS_PER_INCH = 110
LINES_A_PANEL = 4
"""more lines cannot be distinguished without colour"""
PANELS_A_ROW = 3
LETTERS_AN_INCH = 14
"""letters of 9 points per inch"""
LINE = 0.17
"""height of one line of a legend, in inches"""
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
        options: for `Figure.subplots`, such as sharey.
    """
    # Set permanently: legends and labels that are drawn later read these settings too.
    mpl.rcParams.update(_SETTINGS)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False, **options).flat)


def row_panels(rows: Sequence[str], xlabel: str, ylabel: str) -> tuple[Figure, list[Axes], bool]:
    """Panels for the rows of a table: one panel with a line for each of a few rows, else one titled panel for each row.

    Returns:
        the figure, the panel of every row, and whether all rows share one panel.
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
    """Sets a logarithmic y scale after drawing, with plain numbers if its range is small."""
    axis.set_yscale("log")
    lowest, highest = axis.get_ylim()
    if highest < 100 * lowest:
        axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter(NullFormatter())


def save(figure: Figure, path: Path) -> Path:
    """Writes a figure; the file's extension gives the format (png, pdf, svg)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        # Long names can leave a panel little space; the figure is still complete.
        warnings.filterwarnings("ignore", message="constrained_layout not applied")
        figure.savefig(path, dpi=DOTS_PER_INCH)
    return path


def line_look(number: int) -> dict[str, Any]:
    """Style of line number `number` of a panel, distinguishable without colour."""
    return {
        "color": GREYS[number % 4],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": LINES[number % len(LINES)],
        "markersize": 4,
        "linewidth": 1.2,
    }


def fitted(text: str, figure: Figure) -> str:
    """Text broken into lines that fit the width of a figure."""
    return textwrap.fill(text, int(figure.get_figwidth() * LETTERS_AN_INCH))
