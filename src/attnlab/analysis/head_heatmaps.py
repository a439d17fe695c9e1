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
from attnlab.plots.style import LINE, SHADES, SIGNED_SHADES, WIDTH, fitted, panels

MOST_HEADS = 16
HEADS_A_LINE = 8
WIDE = 9.0
"""inches of a figure with more than four heads in a line"""
LONGEST_NAME = 12
_NAMES_A_INCH = 7.0
_FONT = 7
ByRun = Sequence[tuple[str, Mapping[str, Maps]]]
"""labels of runs, and their maps by the names of attentions"""


@dataclass(frozen=True)
class Scale:
    """Shades of the maps of one figure.

    meaning: quantity that the shades show.
    axes:    names of the x and the y axis.
    uniform: whether 1 is what a uniform matrix has; the scale marks it, and ends at the 99th percentile.
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


def draw_maps(found: ByRun, shown: Mapping[str, str], title: str, scale: Scale) -> Figure:
    """Figure with lines of maps for each attention and run (runs of one attention together), one map per head.

    Args:
        shown: titles of the attentions by name, in order.
        title: of the figure.
    """
    lines = list(_lines(found, shown))
    columns = min(HEADS_A_LINE, max(len(line.heads) for line in lines))
    width = WIDTH if columns <= 4 else WIDE
    size = min(2.4, (width - 1.0) / columns)
    extra = 1 + len(fitted(title + cut_off(lines), Figure(figsize=(width, 1))).splitlines())
    ends = [_ends(line, below) for line, below in zip(lines, [*lines[1:], None], strict=True)]
    around = sum(0.2 + 0.2 * bool(line.title) + _below(line) * end for line, end in zip(lines, ends, strict=True))
    figure, axes = panels(len(lines) * columns, columns, size + around / len(lines), extra + 4, width)
    norm, colours, beyond = _norm(scale, [line.heads for line in lines])
    for number, line in enumerate(lines):
        row = axes[number * columns : (number + 1) * columns]
        _draw_line(row, line, norm, colours, size, ends[number])
        row[0].set_ylabel(scale.axes[1])
        for axis in row[: len(line.heads)] if ends[number] else ():
            axis.set_xlabel(scale.axes[0])
    _bar(figure, ScalarMappable(norm, colours), axes, scale, beyond)
    figure.suptitle(fitted(title + cut_off(lines), figure), fontsize=9, parse_math=False)
    return figure


def _lines(found: ByRun, shown: Mapping[str, str]) -> Iterator[_Line]:
    for name, title in shown.items():
        for label, maps in ((label, maps[name]) for label, maps in found if name in maps):
            heads = maps.heads[:MOST_HEADS]
            told = f"{title}: {label}" if len(found) > 1 else title
            for first in range(0, len(heads), HEADS_A_LINE):
                yield _Line(told if not first else "", maps, first, heads[first : first + HEADS_A_LINE])


def _ends(line: _Line, below: _Line | None) -> bool:
    """Whether labels stand below a line of maps: the next one has other columns, or there is none."""
    sizes = [(one.maps.columns, one.heads.shape[2], len(one.heads)) for one in (line, below) if one]
    return len(sizes) < 2 or sizes[0] != sizes[1]


def _below(line: _Line) -> float:
    """Inches of the labels below a line of maps."""
    return 0.3 + 0.055 * max((len(name[:LONGEST_NAME]) for name in line.maps.columns or ()), default=0)


def cut_off(lines: Sequence[_Line]) -> str:
    """Words on positions and heads that are not shown."""
    long = [line.maps for line in lines if line.maps.heads.shape[1:] != line.maps.length][:1]
    cut = "".join(f" (the first {len(maps.heads[0])} of {maps.length[0]} positions)" for maps in long)
    most = max(len(line.maps.heads) for line in lines)
    return cut + (f" (the first {MOST_HEADS} of {most} heads)" if most > MOST_HEADS else "")


def _draw_line(row: Sequence[Axes], line: _Line, norm: Normalize, colours: Colormap, size: float, ends: bool) -> None:
    """One line of maps below its title."""
    above = "\n" if line.title else ""
    for at, (axis, matrix) in enumerate(zip(row, line.heads, strict=False)):
        n, m = matrix.shape
        for spine in axis.spines.values():
            spine.set(visible=True, linewidth=0.4)
        axis.imshow(
            matrix,
            cmap=colours,
            norm=norm,
            interpolation="nearest" if max(n, m) <= 64 else "auto",
            aspect="equal" if n == m else "auto",
            extent=(0.5, m + 0.5, n + 0.5, 0.5),
        )
        _ticks(axis, "y", line.maps.rows, n, size, at == 0)
        _ticks(axis, "x", line.maps.columns, m, size, ends)
        axis.set_title(f"{above}head {line.first + at + 1}", fontsize=8)
    for axis in row[len(line.heads) :]:
        axis.set_visible(False)
    if line.title:
        style: Any = {"xycoords": "axes fraction", "textcoords": "offset points", "fontsize": 9, "fontweight": "bold"}
        title = row[0].annotate(line.title, (0, 1), (0, 18), parse_math=False, **style)
        # it goes on over the next maps
        title.set_in_layout(False)


def _norm(scale: Scale, heads: Sequence[np.ndarray]) -> tuple[Normalize, Colormap, str]:
    """The norm of the shades, their colours, and on which side some entries are beyond it.

    With `uniform`, 0 is white, 1 light blue, and the darkest is the 99th percentile of the entries that are not 0, but
    at least 2; negative entries are orange.
    """
    if not scale.uniform:
        return Normalize(0.0, 1.0), SHADES, "neither"
    entries = np.concatenate([one[np.isfinite(one) & (one != 0)] for one in heads])
    low = min(0.0, float(entries.min(initial=0.0)))
    high = max(2.0, float(np.quantile(entries, 0.99)) if len(entries) else 0.0)
    beyond = "max" if (entries > high).any() else "neither"
    values, shades = [low, 0.0, 1.0, high], [0.0, 0.25, 0.5, 1.0]
    if low == 0:
        values, shades = values[1:], [0.0, 1 / 3, 1.0]
    functions = (lambda x: np.interp(x, values, shades), lambda y: np.interp(y, shades, values))
    return FuncNorm(functions, low, high), (SIGNED_SHADES if low < 0 else SHADES), beyond


def _bar(figure: Figure, shades: ScalarMappable, axes: Sequence[Axes], scale: Scale, beyond: str) -> None:
    """The scale of the shades, below all maps; with an arrow where some entries are beyond it."""
    inches = figure.get_figheight()
    bar = figure.colorbar(
        shades, ax=list(axes), location="bottom", shrink=0.6, aspect=30, pad=min(0.05, LINE / inches), extend=beyond
    )
    if scale.uniform:
        low, high = shades.get_clim()
        ticks = [*([low] if low < 0 else []), 0.0, 1.0, *([(1 + high) / 2] if high > 3 else []), high]
        bar.set_ticks(ticks, labels=[f"{tick:.3g}" if tick != 1 else "1" for tick in ticks])
        bar.ax.minorticks_off()
        bar.ax.axvline(1.0, color="black", linewidth=1.2)
    bar.ax.tick_params(labelsize=8)
    bar.set_label(scale.meaning, fontsize=8)


def _ticks(
    axis: Axes, side: Literal["x", "y"], names: Sequence[str] | None, size: int, inches: float, wanted: bool
) -> None:
    """Labels of positions where there is room, else numbers of the first, middle and last position."""
    which = getattr(axis, f"{side}axis")
    if not wanted:
        which.set_ticks([])
        return
    if names and sum(map(bool, names)) <= inches * _NAMES_A_INCH:
        named = {position: name[:LONGEST_NAME] for position, name in enumerate(names, start=1) if name}
        which.set_ticks(list(named), list(named.values()))
        for label in which.get_ticklabels():
            label.set_parse_math(False)
        axis.tick_params(axis=side, labelrotation=90 if side == "x" else 0)
    else:
        which.set_ticks(sorted({1, (size + 1) // 2, size}))
    axis.tick_params(axis=side, labelsize=_FONT, length=1.5, pad=1)
