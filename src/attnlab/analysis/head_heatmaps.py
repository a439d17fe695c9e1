"""Maps (heat maps) of a matrix for every head of every attention: similarity of values, attention weights."""

import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from attnlab.analysis.summary_types import Maps
from attnlab.plots.style import fitted, panels

MOST_HEADS = 16
LONGEST_NAME = 12
_NAMES_A_INCH = 7.5
_LARGE, _SMALL = 3.6, 1.4
_MOST_LARGE = 32
"""figures of up to so many maps may have large maps, with labels of many positions"""
ByRun = Sequence[tuple[str, Mapping[str, Maps]]]
"""labels of runs, and their maps by the names of attentions"""
Limits = tuple[float, float]
"""values that are white and black"""


def draw_maps(found: ByRun, shown: Mapping[str, str], caption: str, meaning: str, limits: Limits | None) -> Figure:
    """Figure with a row of maps for each attention and run (runs of one attention together), one map per head.

    Args:
        shown: titles of the attentions by name, in order.
        caption: examples in the maps, for the title.
        meaning: quantity that the shades show.
        limits: of the shades; None = `_limits` for each attention.
    """
    rows = [(name, label, maps[name]) for name in shown for label, maps in found if name in maps]
    heads = min(MOST_HEADS, max(len(maps.heads) for _, _, maps in rows))
    most_names = max(max(_count(maps.rows), _count(maps.columns)) for _, _, maps in rows)
    room = _LARGE if len(rows) * heads <= _MOST_LARGE else _SMALL
    size = min(room, max(_SMALL, most_names / _NAMES_A_INCH))
    beside = 1.3 if len(found) == 1 else 1.8
    figure, axes = panels(len(rows) * heads, heads, size + 0.1 + beside / heads, size + 0.25)
    for number, (name, label, maps) in enumerate(rows):
        line, ends = axes[number * heads : (number + 1) * heads], number + 1 == len(rows)
        low, high = limits or _limits([other.heads for there, _, other in rows if there == name])
        images = [_map(axis, matrix, low, high) for axis, matrix in zip(line, maps.heads, strict=False)]
        for axis in line[len(images) :]:
            axis.set_visible(False)
        below = maps if ends else rows[number + 1][2]
        same = (maps.columns, maps.heads.shape[2]) == (below.columns, below.heads.shape[2])
        for head, axis in enumerate(line[: len(images)]):
            _ticks(axis, "y", maps.rows, maps.heads.shape[1], size, head == 0)
            _ticks(axis, "x", maps.columns, maps.heads.shape[2], size, ends or not same)
            axis.set_title(f"head {head + 1}" if number == 0 else "", fontsize=8)
        parts = [shown[name], label] if len(found) > 1 else [shown[name]]
        line[0].set_ylabel("\n".join(textwrap.fill(part, 18) for part in parts), fontsize=8)
        if limits is None:
            _bar(figure, images[-1], line[: len(images)], "", 0.75, more=bool((maps.heads > high).any()))
    if limits is not None:
        _bar(figure, images[-1], axes, meaning, min(1.0, 3.0 / len(rows)), more=False)
    long = [maps for *_, maps in rows if maps.heads.shape[1:] != maps.length][:1]
    cut = "".join(f" (the first {len(maps.heads[0])} of {maps.length[0]} positions)" for maps in long)
    most = max(len(maps.heads) for _, _, maps in rows)
    cut += f" (the first {heads} of {most} heads)" if most > heads else ""
    whose = f", {found[0][0]}" if len(found) == 1 else ""
    figure.suptitle(fitted(f"{meaning}{whose}: {caption}{cut}", figure), fontsize=9, parse_math=False)
    return figure


def _map(axis: Axes, matrix: np.ndarray, low: float, high: float) -> AxesImage:
    n, m = matrix.shape
    for spine in axis.spines.values():
        spine.set(visible=True, linewidth=0.4)
    return axis.imshow(
        matrix,
        cmap="Greys",
        vmin=low,
        vmax=high,
        interpolation="nearest" if max(n, m) <= 64 else "auto",
        aspect="equal" if n == m else "auto",
        extent=(0.5, m + 0.5, n + 0.5, 0.5),
    )


def _limits(heads: Sequence[np.ndarray]) -> Limits:
    """From 0 (or the smallest entry, if negative) to the 99th percentile of the entries that are not 0.

    The first queries of causal attention have few keys and large weights; with the maximum all others would be white.
    """
    entries = np.concatenate([one[np.isfinite(one) & (one != 0)] for one in heads])
    high = float(np.quantile(entries, 0.99)) if len(entries) else 0.0
    return min(0.0, float(entries.min(initial=0.0))), max(high, 1e-12)


def _bar(figure: Figure, image: AxesImage, axes: Sequence[Axes], meaning: str, shrink: float, more: bool) -> None:
    """A colour bar; with an arrow where some entries are beyond it."""
    extend = "max" if more else "neither"
    bar = figure.colorbar(image, ax=list(axes), aspect=15, fraction=0.04, pad=0.01, shrink=shrink, extend=extend)
    bar.ax.tick_params(labelsize=6)
    bar.set_label(meaning, fontsize=7)


def _ticks(axis: Axes, side: str, names: Sequence[str] | None, size: int, inches: float, wanted: bool) -> None:
    """Labels of positions where there is room, else numbers of the first, middle and last position."""
    which = getattr(axis, f"{side}axis")
    if not wanted:
        which.set_ticks([])
        return
    if names and _count(names) <= inches * _NAMES_A_INCH:
        named = {position: name[:LONGEST_NAME] for position, name in enumerate(names, start=1) if name}
        which.set_ticks(list(named), list(named.values()))
        for label in which.get_ticklabels():
            label.set_parse_math(False)
        axis.tick_params(axis=side, labelrotation=90 if side == "x" else 0)
    else:
        which.set_ticks(sorted({1, (size + 1) // 2, size}))
    axis.tick_params(axis=side, labelsize=6, length=1.5, pad=1)


def _count(names: Sequence[str] | None) -> int:
    """Number of positions with a label: in images only some have one."""
    return sum(map(bool, names or ()))
