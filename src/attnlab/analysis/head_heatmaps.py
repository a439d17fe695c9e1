"""Maps (heat maps) of a matrix for every head of every attention: similarity of values, attention weights."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, FuncNorm, Normalize
from matplotlib.figure import Figure

from attnlab.analysis.summary_types import Maps
from attnlab.plots.style import SCREEN, SHADES, SIGNED_SHADES, WIDTH, fitted

MOST_HEADS = 16
HEADS_A_LINE = 8
MOST_BLOCKS = 6
WIDE = 8.5
"""inches of a figure with more than four heads in a line"""
LARGEST, SMALLEST = 2.4, 0.28
"""inches of a map"""
ROOMY = 0.6
"""inches of a map from which each has the name of its axes"""
BETWEEN, TITLE, ENDS = 0.06, 0.25, 1.3
"""inches between maps, of the title of a line, of the title of the figure and the scale of the shades"""
LONGEST_NAME = 12
_NAMES_A_INCH = 7.0
_LETTER = 0.055
"""inches of a letter in a label"""
_FONT = 7
ByRun = Sequence[tuple[str, Mapping[str, Maps]]]
"""labels of runs, and their maps by the names of attentions"""


@dataclass(frozen=True)
class Scale:
    """Shades of the maps of one figure.

    meaning: quantity that the shades show.
    axes:    names of the x and the y axis.
    uniform: whether entries are relative to uniform attention, so that each would be 1: then the scale marks 1, and
        ends at the 99th percentile of the entries; else it runs from 0 to 1.
    """

    meaning: str
    axes: tuple[str, str]
    uniform: bool


VALUES = Scale("|cosine| of values", ("position", "position"), uniform=False)
WEIGHTS = Scale("attention weight times number of keys (1 = uniform)", ("key", "query"), uniform=True)


@dataclass(frozen=True)
class _Line:
    """Some heads of one attention in one run: a line of maps, from head number `first` on."""

    title: str
    maps: Maps
    first: int
    heads: np.ndarray
    kind: tuple[int, int]
    """lines of one kind have equal axes and share the labels below the last of them"""


def draw_maps(by_run: ByRun, shown: Mapping[str, str], title: str, scale: Scale) -> Figure:
    """Figure with lines of maps for each attention and run (runs of one attention together), one map per head. The
    lines are in blocks beside each other, so that the figure fits a screen.

    Args:
        shown: titles of the attentions by name, in order.
        title: of the figure.
    """
    lines = list(_lines(by_run, shown))
    *_, smallest = layouts = list(_layouts(lines))
    size, blocks, width, height = next((each for each in layouts if each[-1] <= SCREEN[1]), smallest)
    figure = Figure((width, height))
    figure.set_layout_engine("constrained", w_pad=BETWEEN / 2, h_pad=BETWEEN / 2, wspace=0, hspace=0)
    heads, rows = max(len(line.heads) for line in lines), -(-len(lines) // blocks)
    grid = figure.add_gridspec(rows, blocks * heads)
    norm, colours, beyond = _norm(scale, [line.heads for line in lines])
    for number, line in enumerate(lines):
        block, at = divmod(number, rows)
        row = [figure.add_subplot(grid[at, block * heads + head]) for head in range(len(line.heads))]
        ends = at == rows - 1 or [line.kind] != [after.kind for after in lines[number + 1 : number + 2]]
        _draw_line(row, line, norm, colours, size, ends, at == 0)
        for axis in row if ends and size > ROOMY else row[: int(ends)]:
            axis.set_xlabel(scale.axes[0], fontsize=_FONT)
        if ends or size > ROOMY:
            row[0].set_ylabel(scale.axes[1], fontsize=_FONT)
    _bar(figure, ScalarMappable(norm, colours), scale, beyond)
    figure.suptitle(fitted(title + cut_off(lines), figure), fontsize=9, parse_math=False)
    return figure


def _layouts(lines: Sequence[_Line]) -> Iterator[tuple[float, int, float, float]]:
    """Inches of a map, number of blocks, and inches of the figure: the largest maps first, in the fewest blocks."""
    heads, kinds = max(len(line.heads) for line in lines), len({line.kind for line in lines})
    largest = min(LARGEST, (WIDTH if heads <= HEADS_A_LINE // 2 else WIDE) / heads - 4 * BETWEEN)
    for size in (*np.arange(largest, SMALLEST, -0.05).tolist(), SMALLEST):
        left = max(_labels(line.maps.rows, size) for line in lines)
        below = max(_labels(line.maps.columns, size) for line in lines)
        for blocks in range(1, min(MOST_BLOCKS, len(lines)) + 1):
            height = -(-len(lines) // blocks) * (size + BETWEEN + TITLE) + -(-kinds // blocks) * below + ENDS
            width = blocks * (left + heads * (size + BETWEEN))
            if width <= SCREEN[0]:
                yield size, blocks, max(WIDTH, width), height


def _lines(by_run: ByRun, shown: Mapping[str, str]) -> Iterator[_Line]:
    """The lines of all maps; attentions with the same axes follow each other, so that they share their labels."""
    kinds: dict[tuple[Any, ...], int] = {}
    places = {}
    for name in shown:
        maps = next(maps[name] for _, maps in by_run if name in maps)
        axes = tuple(maps.rows or ()), tuple(maps.columns or ()), maps.heads.shape
        places[name] = kinds.setdefault(axes, len(kinds))
    for name in sorted(shown, key=places.__getitem__):
        for label, maps in ((label, maps[name]) for label, maps in by_run if name in maps):
            title = f"{shown[name]}: {label}" if len(by_run) > 1 else shown[name]
            for first in range(0, min(len(maps.heads), MOST_HEADS), HEADS_A_LINE):
                heads = maps.heads[first : min(first + HEADS_A_LINE, MOST_HEADS)]
                yield _Line(title if not first else "", maps, first, heads, (places[name], len(heads)))


def _labels(names: Sequence[str] | None, size: float) -> float:
    """Inches of the labels at one side of a line of maps."""
    named = names if names and _is_named(names, size) else ()
    return 0.36 + _LETTER * max((len(name[:LONGEST_NAME]) for name in named), default=0)


def cut_off(lines: Sequence[_Line]) -> str:
    """Words on positions and heads that are not shown."""
    long = [line.maps for line in lines if line.maps.heads.shape[1:] != line.maps.length][:1]
    cut = "".join(f" (the first {len(maps.heads[0])} of {maps.length[0]} positions)" for maps in long)
    most = max(len(line.maps.heads) for line in lines)
    return cut + (f" (the first {MOST_HEADS} of {most} heads)" if most > MOST_HEADS else "")


def _draw_line(
    row: Sequence[Axes], line: _Line, norm: Normalize, colours: Colormap, size: float, ends: bool, is_first: bool
) -> None:
    """A line of maps of `size` inches below its title, with labels below (`ends`) and numbers of heads above."""
    for at, (axis, matrix) in enumerate(zip(row, line.heads, strict=True)):
        n, m = matrix.shape
        for spine in axis.spines.values():
            spine.set(visible=True, linewidth=0.4)
        smooth = "nearest" if max(n, m) <= 64 else "auto"
        extent = (0.5, m + 0.5, n + 0.5, 0.5)
        axis.imshow(matrix, cmap=colours, norm=norm, interpolation=smooth, aspect="auto", extent=extent)
        _ticks(axis, "y", line.maps.rows, n, size, at == 0)
        _ticks(axis, "x", line.maps.columns, m, size, ends)
        number = str(line.first + at + 1) if is_first or line.first else ""
        # the blank line keeps the place of the title, which is wider than the map
        axis.set_title(f"\n{'head ' if number and size > ROOMY else ''}{number}", fontsize=_FONT, pad=2)
    style: Any = {"xycoords": "axes fraction", "textcoords": "offset points", "fontsize": 8, "fontweight": "bold"}
    title = row[0].annotate(line.title, (0, 1), (0, 12 if is_first else 3), parse_math=False, **style)
    title.set_in_layout(False)


def _norm(scale: Scale, heads: Sequence[np.ndarray]) -> tuple[Normalize, Colormap, str]:
    """The norm of the shades, their colours, and on which side some entries are beyond it.

    With `uniform`, 0 is white, 1 light blue, and the darkest is the 99th percentile of the entries that are not 0, but
    at least 2; negative entries are orange.
    """
    if not scale.uniform:
        return Normalize(0.0, 1.0), SHADES, "neither"
    entries = np.concatenate([matrix[np.isfinite(matrix) & (matrix != 0)] for matrix in heads])
    low = min(0.0, float(entries.min(initial=0.0)))
    high = max(2.0, float(np.quantile(entries, 0.99)) if len(entries) else 0.0)
    beyond = "max" if (entries > high).any() else "neither"
    values, shades = [low, 0.0, 1.0, high], [0.0, 0.25, 0.5, 1.0]
    if low == 0:
        values, shades = values[1:], [0.0, 1 / 3, 1.0]
    functions = (lambda x: np.interp(x, values, shades), lambda y: np.interp(y, shades, values))
    return FuncNorm(functions, low, high), (SIGNED_SHADES if low < 0 else SHADES), beyond


def _bar(figure: Figure, shades: ScalarMappable, scale: Scale, beyond: str) -> None:
    """The scale of the shades, below all maps; with an arrow where some entries are beyond it."""
    share = 3.8 / figure.get_figwidth()
    bar = figure.colorbar(shades, ax=figure.axes, location="bottom", shrink=share, aspect=32, extend=beyond)
    if scale.uniform:
        low, high = shades.get_clim()
        ticks = [*([low] if low < 0 else []), 0.0, 1.0, *([(1 + high) / 2] if high > 3 else []), high]
        bar.set_ticks(ticks, labels=[f"{tick:.3g}" if tick != 1 else "1" for tick in ticks])
        bar.ax.minorticks_off()
        bar.ax.axvline(1.0, color="black", linewidth=1.2)
    bar.ax.tick_params(labelsize=_FONT)
    bar.set_label(scale.meaning, fontsize=8, labelpad=1)


def _is_named(names: Sequence[str], inches: float) -> bool:
    """Whether there is room for the names of positions at an axis."""
    return sum(map(bool, names)) <= inches * _NAMES_A_INCH


def _ticks(
    axis: Axes, side: Literal["x", "y"], names: Sequence[str] | None, size: int, inches: float, wanted: bool
) -> None:
    """Labels of positions where there is room, else numbers of the first, middle and last position."""
    which = getattr(axis, f"{side}axis")
    if not wanted:
        which.set_ticks([])
        return
    if names and _is_named(names, inches):
        named = {position: name[:LONGEST_NAME] for position, name in enumerate(names, start=1) if name}
        which.set_ticks(list(named), list(named.values()))
        for label in which.get_ticklabels():
            label.set_parse_math(False)
        axis.tick_params(axis=side, labelrotation=90 if side == "x" else 0)
    else:
        which.set_ticks(sorted({1, (size + 1) // 2, size}))
    axis.tick_params(axis=side, labelsize=_FONT, length=1.5, pad=1)
