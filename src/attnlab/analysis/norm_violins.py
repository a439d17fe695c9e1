"""Norms of queries and keys by head, as violins: one run, or several side by side."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from attnlab.analysis.summary_types import AttentionSummary
from attnlab.plots.style import (
    COLOURS,
    HATCHES,
    STRONG,
    empty_panel,
    fitted,
    legend_below,
    legend_lines,
    on_screen,
    panel_title,
    panels,
)

MOST_DRAWN = 4000
"""norms that a violin is estimated from, evenly spaced in sorted order; csv files use all"""
NOTE = "violin: norms at the positions of the examples, line across it: their median"
STATISTICS = ("n", "not_finite", "mean", "sd", "min", "quarter", "median", "three_quarters", "max")
FAR_APART = 30.0
"""ratio of medians from which the axis of a row of panels is logarithmic"""


def statistics_of(values: np.ndarray) -> list[Any]:
    """`STATISTICS` of some norms; all but the first two are of finite norms, and empty without any."""
    finite = values[np.isfinite(values)].astype(np.float64)
    counts = [len(values), len(values) - len(finite)]
    if not len(finite):
        return [*counts, *[""] * (len(STATISTICS) - 2)]
    return [*counts, float(finite.mean()), float(finite.std()), *np.quantile(finite, (0, 0.25, 0.5, 0.75, 1)).tolist()]


def draw_norms(summaries: Sequence[AttentionSummary], shown: Mapping[str, str], title: str) -> Figure:
    """Figure with a row for every attention: queries and keys on one scale, a violin for each head and run.

    Args:
        shown: titles of the attentions by name, in order.
        title: of the figure.
    """
    labels = [f"{summary.label} ({summary.about})" for summary in summaries]
    lines = 3 * (1 + len(labels)) + legend_lines(NOTE)
    beside, height, width = on_screen(len(shown), 1, 1.75, lines, 3)
    figure, axes = panels(2 * len(shown), 2 * beside, height, lines, width)
    for number, (name, attention) in enumerate(shown.items()):
        pair = axes[2 * number : 2 * number + 2]
        pair[1].sharey(pair[0])
        medians: list[float] = []
        for axis, of in zip(pair, ("queries", "keys"), strict=True):
            heads = [getattr(summary.norms[name], of) if name in summary.norms else [] for summary in summaries]
            medians += _panel(axis, heads)
            axis.set_title(panel_title(f"{attention}: {of}", 2 * beside, width))
        pair[0].set_ylabel("L2 norm")
        pair[1].tick_params(labelleft=False)
        if not medians:
            pair[0].set_yticks([])
        elif min(medians) > 0 and max(medians) / min(medians) > FAR_APART:
            pair[0].set_yscale("log")
        else:
            pair[0].set_ylim(bottom=0.0)
    for axis in axes[-2 * beside :]:
        axis.set_xlabel("head")
    handles = [Patch(**_look(number), label=fitted(label, figure)) for number, label in enumerate(labels)]
    legend_below(figure, NOTE, 1, handles)
    figure.suptitle(fitted(title, figure), fontsize=9, parse_math=False)
    return figure


def _panel(axis: Axes, runs: Sequence[Sequence[np.ndarray]]) -> list[float]:
    """Violins of each head; two runs are the halves of one violin. Returns the medians."""
    n = len(runs)
    width = 0.85 if n < 3 else 0.85 / n
    medians: list[float] = []
    for number, heads in enumerate(runs):
        offset = 0.0 if n < 3 else (number - (n - 1) / 2) * width
        drawn = [(head + offset, _drawn(values)) for head, values in enumerate(heads, start=1)]
        drawn = [(x, values) for x, values in drawn if len(values)]
        if not drawn:
            continue
        xs, samples = zip(*drawn, strict=True)
        side: Any = ("low", "high")[number] if n == 2 else "both"
        parts: Any = axis.violinplot(samples, xs, widths=width, side=side, showextrema=False, showmedians=True)
        for body in parts["bodies"]:
            body.set(**_look(number), alpha=1.0)
        parts["cmedians"].set(color="1.0" if number % 2 == 0 else "0.0", linewidth=1.6)
        medians += [float(np.median(values)) for values in samples]
    most = max((len(heads) for heads in runs), default=0)
    if not medians:
        empty_panel(axis, "no finite norm" if most else "no such attention in these runs")
    axis.set_xticks(range(1, most + 1, 1 + most // 13))
    axis.set_xlim(0.4, max(1, most) + 0.6)
    return medians


def _look(number: int) -> dict[str, Any]:
    """Style of the violins of one run: dark blue and light orange in turn, so that neighbours differ in grey too."""
    face, hatch = (STRONG, COLOURS[0])[number % 2], HATCHES[number // 2 % len(HATCHES)]
    return {"facecolor": face, "edgecolor": "0.0", "linewidth": 0.5, "hatch": hatch}


def _drawn(values: np.ndarray) -> np.ndarray:
    """Values that a violin is estimated from: all, or evenly spaced ones in sorted order."""
    finite = np.sort(values[np.isfinite(values)].astype(np.float64))
    if len(finite) <= MOST_DRAWN:
        return finite
    return finite[np.linspace(0, len(finite) - 1, MOST_DRAWN).round().astype(int)]
