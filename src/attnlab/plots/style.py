"""Common style of all figures: readable without colour and at the width of a page."""

import textwrap
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

T = TypeVar("T")
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
    "legend.title_fontsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "hatch.linewidth": 0.5,
    "savefig.facecolor": "white",
}


def panels(
    number: int, columns: int, width: float, height: float, legend: int = 0, **options: Any
) -> tuple[Figure, list[Axes]]:
    """A figure with a number of panels, so many in a row, each `width` x `height` inches.

    Args:
        legend: lines of a legend outside of the panels.
        options: for `Figure.subplots`, such as sharey.

    Returns:
        the figure, and its panels in reading order.
    """
    # Set permanently: legends and labels that are drawn later read these settings too.
    mpl.rcParams.update(_SETTINGS)
    rows = -(-number // columns)
    figure = Figure(figsize=(width * columns, height * rows + LINE * legend), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False, **options).flat)
    for axis in axes[number:]:
        axis.set_visible(False)
    return figure, axes[:number]


def row_lines(
    rows: Mapping[str, T], xlabel: str, ylabel: str, draw: Callable[[Axes, T, dict[str, Any]], None], named: int = 1
) -> Figure:
    """Figure of the rows of a table: one panel with a line for each of a few rows, else one titled panel for each row.

    Args:
        rows: what is drawn, by the names of the rows.
        draw: draws one row in a panel, with the style and the label of its line.
        named: a legend is drawn from so many rows on.
    """
    together = len(rows) <= LINES_A_PANEL
    size = (1, 1, 5.2, 3.0) if together else (len(rows), PANELS_A_ROW, 2.6, 2.2)
    figure, axes = panels(*size, sharey=not together)
    for number, (name, row) in enumerate(rows.items()):
        axis = axes[0 if together else number]
        axis.set(xlabel=xlabel, title="" if together else name)
        draw(axis, row, line_look(number if together else 0) | {"label": name})
    figure.supylabel(ylabel, fontsize="medium")
    if together and len(rows) >= named:
        axes[0].legend()
    return figure


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
