"""One style for all pictures: legible in grey, readable at the width of a page."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

GREYS = ("0.15", "0.55", "0.75", "0.35", "0.88")
"""of bars and lines, in the order they are told apart best; more than these need hatches and markers"""
HATCHES = ("", "///", "...", "xxx", "\\\\\\")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
LINES = ("-", "--", "-.", ":")
DOTS_PER_INCH = 110
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


def save(figure: Figure, path: Path) -> Path:
    """Write a picture; the file's ending says which kind (png, pdf, svg)."""
    path.parent.mkdir(parents=True, exist_ok=True)
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
