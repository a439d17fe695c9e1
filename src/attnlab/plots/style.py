"""Common style of all figures: one palette for colour-blind readers, legible in grey and on a phone.

Colours are Okabe & Ito's (Color Universal Design, 2008). Lines differ in dashes and markers too, areas in hatches. Most
figures are `WIDTH` inches wide, so that text of 9 points can be read where a picture is 390 pixels wide.
"""

import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from attnlab.plots.png_caption import KEY

STRONG = "#0072B2"
"""blue, the darkest in grey: the row of interest"""
COLOURS = ("#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#808080")
"""orange, green, purple, vermillion, sky blue, grey: other rows; their yellow is too pale, their black too strong"""
PALE, EDGE = "0.84", "0.35"
"""greys of bars and their edges"""
SHADES = LinearSegmentedColormap.from_list("white_to_blue", ["#FFFFFF", "#56B4E9", "#0072B2", "#00263D"])
"""of maps: lightness falls evenly, so that a map is legible in grey"""
SIGNED_SHADES = LinearSegmentedColormap.from_list(
    "orange_to_blue", ["#D55E00", "#FFFFFF", "#56B4E9", "#0072B2", "#00263D"]
)
"""of maps with negative entries"""
HATCHES = ("", "///", "...", "xxx", "\\\\\\")
MARKERS = ("s", "^", "D", "v", "P", "X", "<", ">", "*")
LINES: Any = ((0, (5, 2)), (0, (4, 1.5, 1, 1.5)), (0, (1.5, 1.2)), (0, (7, 2, 1, 2, 1, 2)))
DOTS_PER_INCH = 150
WIDTH = 6.4
"""inches of a figure"""
SCREEN = (12.8, 7.2)
"""width and height of a picture of many panels in inches: 1,920 x 1,080 pixels"""
LETTERS_AN_INCH = 14.5
"""letters of 9 points per inch"""
LINE = 0.18
"""height of one line of a legend or a title, in inches"""
_SETTINGS: Any = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "legend.title_fontsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "hatch.linewidth": 0.5,
    "savefig.facecolor": "white",
}


def panels(
    number: int, columns: int, height: float, lines: int = 0, width: float = WIDTH, **options: Any
) -> tuple[Figure, list[Axes]]:
    """A figure with a number of panels, so many in a row, and its panels in reading order.

    Args:
        height, width: of a panel and of the figure, in inches.
        lines: of text outside of the panels: legends, titles.
        options: for `Figure.subplots`, such as sharey.
    """
    # Set permanently: legends and labels that are drawn later read these settings too.
    mpl.rcParams.update(_SETTINGS)
    rows = -(-number // columns)
    figure = Figure(figsize=(width, height * rows + LINE * lines), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False, **options).flat)
    for axis in axes[number:]:
        axis.set_visible(False)
    return figure, axes[:number]


def panel_columns(number: int) -> int:
    """The columns of a figure with so many small panels."""
    return number if number <= 3 else 2 if number == 4 else 3


def on_screen(number: int, columns: int, height: float, lines: int, most: int) -> tuple[int, float, float]:
    """The columns of a picture of so many parts that fits a screen, the height of a part, and the width of the figure.

    Args:
        columns: parts beside each other in a figure of `WIDTH`, which is widened for more (`most`).
        height: of a part, in inches; a part may be half as high.
        lines: of text outside of the parts.
    """
    free = SCREEN[1] - LINE * lines
    fitting = (count for count in range(columns, most) if -(-number // count) * 0.7 * height <= free)
    fit = next(fitting, most)
    width = min(SCREEN[0], WIDTH * fit / columns)
    return fit, max(min(height, free / -(-number // fit)), height / 2), width


def panel_title(text: str, columns: int, width: float = WIDTH) -> str:
    """A title broken into lines that fit one of so many columns of a figure of some inches."""
    return textwrap.fill(text, max(12, int(0.7 * width / columns * LETTERS_AN_INCH)))


def label_panels(figure: Figure, text: str) -> None:
    """Label of the y axes of all panels; of a single row at its first panel, so that it is not beside the legend."""
    grid = figure.axes[0].get_gridspec()
    if grid is None or grid.nrows == 1:
        # the height of its axes, above a legend
        figure.axes[0].set_ylabel(_fitted(text, 0.65 * figure.get_figheight()), fontsize=9)
    else:
        figure.supylabel(text, fontsize=9)


def legend_below(figure: Figure, note: str, columns: int = 2, handles: Sequence[Any] | None = None) -> None:
    """One legend for all panels, below them, where it covers no data.

    Args:
        note: what the marks are (`line: median of 3 seeds`), in grey above the entries, so that a picture without its
            caption can be read.
        handles: entries with their labels, or none; default: each label of the panels once.
    """
    if handles is None:
        pairs = [pair for axis in figure.axes for pair in zip(*axis.get_legend_handles_labels(), strict=True)]
        handles = list({label: handle for handle, label in pairs if handle is not None}.values())
    columns = _columns([str(handle.get_label()) for handle in handles], columns)
    options: Any = {"ncols": columns, "handlelength": 3.2, "alignment": "left"}
    legend = figure.legend(handles=handles, loc="outside lower left", title=fitted(note, figure), **options)
    legend.get_title().set_color(EDGE)


def legend_lines(note: str, labels: Sequence[str] = (), columns: int = 2) -> int:
    """The lines that `legend_below` needs for a note and these labels, in a figure of `WIDTH`."""
    return len(_fitted(note, WIDTH).splitlines()) + -(-len(labels) // _columns(labels, columns)) + 1


def _columns(labels: Sequence[str], columns: int) -> int:
    """The columns of a legend; one for long labels."""
    return columns if max(map(len, labels), default=0) <= 38 else 1


def empty_panel(axis: Axes, reason: str) -> None:
    """Writes into a panel why it shows nothing, and removes its scales; shared ones belong to other panels too."""
    for which, shared in (("x", axis.get_shared_x_axes()), ("y", axis.get_shared_y_axes())):
        if len(shared.get_siblings(axis)) == 1:
            axis.set(**{f"{which}ticks": []})
    text = textwrap.fill(reason, 30)
    axis.text(0.5, 0.5, text, transform=axis.transAxes, ha="center", va="center", color=EDGE, style="italic")


def logarithmic(axis: Axes, which: Literal["x", "y"] = "y") -> None:
    """Sets a logarithmic scale after drawing, with plain numbers if its range is small."""
    axis.set(**{f"{which}scale": "log"})
    scale, (lowest, highest) = (axis.xaxis, axis.get_xlim()) if which == "x" else (axis.yaxis, axis.get_ylim())
    if highest < 1000 * lowest:
        # of less than two decades a label at each may leave a single one; of more, labels between them cover each other
        subs = (1.0, 2.0, 5.0) if highest < 100 * lowest else (1.0,)
        scale.set_major_locator(LogLocator(subs=subs, numticks=12))
        scale.set_major_formatter("{x:g}")
        scale.set_minor_formatter(NullFormatter())


def save(figure: Figure, path: Path, caption: str = "") -> Path:
    """Writes a figure; the file's extension gives the format (png, pdf, svg). A PNG file holds its caption."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # a link there would be written through
    path.unlink(missing_ok=True)
    described = {KEY: caption} if caption and path.suffix == ".png" else None
    with warnings.catch_warnings():
        # Long names can leave a panel little space; the figure is still complete.
        warnings.filterwarnings("ignore", message="constrained_layout not applied")
        figure.savefig(path, dpi=DOTS_PER_INCH, metadata=described)
    return path


def line_look(number: int | None) -> dict[str, Any]:
    """Style of a line: None is the row of interest, numbers are other rows; distinguishable without colour."""
    if number is None:
        return {"color": STRONG, "marker": "o", "linestyle": "-", "markersize": 5, "linewidth": 2.4, "zorder": 3}
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": LINES[number % len(LINES)],
        "markersize": 4,
        "linewidth": 1.4,
        "zorder": 2,
    }


def line_looks(names: Sequence[str], strongest: str | None) -> dict[str, dict[str, Any]]:
    """Styles of the lines of some rows; the row of interest is strongest. Without one, the first line is solid blue."""
    first = strongest if strongest in names else next(iter(names), None)
    others = iter(range(len(names)))
    looks = {name: line_look(None if name == first else next(others)) for name in names}
    if first is not None and first != strongest:
        looks[first] |= {"linewidth": 1.4, "markersize": 4, "zorder": 2}
    return looks


def fitted(text: str, figure: Figure) -> str:
    """Text broken into lines that fit the width of a figure."""
    return _fitted(text, figure.get_figwidth())


def _fitted(text: str, inches: float) -> str:
    return textwrap.fill(text, int(inches * LETTERS_AN_INCH))
