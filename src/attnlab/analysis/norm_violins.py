"""Norms of queries and keys by head, as violins: one run, or several side by side."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from attnlab.analysis.attention_arrays import Summary
from attnlab.plots.style import GREYS, HATCHES, LINE, fitted, panels

MOST_DRAWN = 4000
"""norms a violin is estimated from, taken at even steps of their order; csv files count all"""
FAR_APART = 30.0
"""ratio of medians in a panel from which its axis is logarithmic"""


def quartiles(values: np.ndarray) -> list[Any]:
    """How many there are and how many of them are not finite; mean, sd, minimum, quartiles and maximum of the rest."""
    finite = values[np.isfinite(values)].astype(np.float64)
    counts = [len(values), len(values) - len(finite)]
    if not len(finite):
        return [*counts, *[""] * 7]
    return [*counts, float(finite.mean()), float(finite.std()), *np.quantile(finite, (0, 0.25, 0.5, 0.75, 1)).tolist()]


def draw_norms(summaries: Sequence[Summary], shown: Mapping[str, str]) -> Figure:
    """A panel for the queries and one for the keys of every attention, a violin for each head and run.

    Args:
        shown: titles of the attentions by name, in order.
    """
    most_heads = max(len(norms.keys) for summary in summaries for norms in summary.norms.values())
    columns = 2 if len(shown) <= 4 else 4
    rows = -(-2 * len(shown) // columns)
    width = min(6.0, max(2.9, 0.3 * most_heads * max(1.0, len(summaries) / 2)))
    figure, axes = panels(rows, columns, width, 1.7 + LINE * len(summaries) / rows)
    for place, (name, title) in enumerate(shown.items()):
        found = [summary.norms.get(name) for summary in summaries]
        for axis, of in zip(axes[2 * place : 2 * place + 2], ("queries", "keys"), strict=True):
            heads = [getattr(norms, of) if norms else [] for norms in found]
            _panel(axis, heads)
            axis.set_title(f"{title}: {of}", fontsize=9)
            if place * 2 % columns == 0 and of == "queries":
                axis.set_ylabel("L2 norm")
    for axis in axes[2 * len(shown) :]:
        axis.set_visible(False)
    for axis in axes[max(0, 2 * len(shown) - columns) : 2 * len(shown)]:
        axis.set_xlabel("head")
    _legend(figure, summaries)
    return figure


def _panel(axis: Axes, runs: Sequence[Sequence[np.ndarray]]) -> None:
    """Violins of each head, those of two runs as halves of one."""
    n = len(runs)
    width = 0.85 if n < 3 else 0.85 / n
    medians = []
    for number, heads in enumerate(runs):
        offset = 0.0 if n < 3 else (number - (n - 1) / 2) * width
        drawn = [(head + offset, _drawn(values)) for head, values in enumerate(heads, start=1)]
        drawn = [(place, values) for place, values in drawn if len(values)]
        if not drawn:
            continue
        places, samples = zip(*drawn, strict=True)
        side = ("low", "high")[number] if n == 2 else "both"
        parts = axis.violinplot(samples, places, widths=width, side=side, showextrema=False, showmedians=True)
        for body in parts["bodies"]:
            body.set(facecolor=_face(number), edgecolor="0.0", linewidth=0.5, alpha=1.0)
            body.set_hatch(HATCHES[number // 2 % len(HATCHES)] if n > 2 else "")
        parts["cmedians"].set(color="1.0" if number % 2 == 0 else "0.0", linewidth=1.2)
        medians += [float(np.median(values)) for values in samples]
    most = max((len(heads) for heads in runs), default=0)
    axis.set_xticks(range(1, most + 1, 1 + most // 13))
    axis.set_xlim(0.4, most + 0.6)
    if medians and min(medians) > 0 and max(medians) / min(medians) > FAR_APART:
        axis.set_yscale("log")
    else:
        axis.set_ylim(bottom=0.0)


def _face(number: int) -> str:
    """Dark and light in turn, so that neighbours are told apart."""
    return (GREYS[3], GREYS[2])[number % 2]


def _drawn(values: np.ndarray) -> np.ndarray:
    """What a violin is estimated from: all, or an even share of the sorted values."""
    finite = np.sort(values[np.isfinite(values)].astype(np.float64))
    if len(finite) <= MOST_DRAWN:
        return finite
    return finite[np.linspace(0, len(finite) - 1, MOST_DRAWN).round().astype(int)]


def _legend(figure: Figure, summaries: Sequence[Summary]) -> None:
    handles = [
        Patch(
            facecolor=_face(number),
            edgecolor="0.0",
            linewidth=0.5,
            hatch=HATCHES[number // 2 % len(HATCHES)] if len(summaries) > 2 else "",
            label=fitted(f"{summary.label} ({summary.about})", figure),
        )
        for number, summary in enumerate(summaries)
    ]
    figure.legend(handles=handles, loc="outside upper left", frameon=False, fontsize=8, ncols=1)
