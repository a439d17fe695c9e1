"""Violins of the norms of queries and keys; curves of accumulated attention, and of gradient norms over training."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from attnlab.analysis.gradient_norm_variation import COLUMN, window_length
from attnlab.analysis.summary_types import RATIOS, AttentionSummary, Locality
from attnlab.learn import metric_units
from attnlab.plots.png_caption import span
from attnlab.plots.style import (
    COLOURS,
    HATCHES,
    STRONG,
    empty_panel,
    fitted,
    label_panels,
    legend_below,
    legend_lines,
    line_looks,
    logarithmic,
    on_screen,
    panel_title,
    panels,
)

MOST_DRAWN = 4000
"""norms that a violin is estimated from, evenly spaced in sorted order; csv files use all"""
NORMS_NOTE = "violin: norms at the positions of the examples, line across it: their median"
STATISTICS = ("n", "not_finite", "mean", "sd", "min", "quarter", "median", "three_quarters", "max")
FAR_APART = 30.0
"""ratio of medians from which the axis of a row of panels is logarithmic"""
UNIFORM_LABEL = "uniform attention"
LOCALITY_NOTE = "line: mean over queries, heads and examples"
MOST_TOGETHER = 6
"""layers in one panel"""
Curve = tuple[str, Locality | None]


def statistics_of(values: np.ndarray) -> list[Any]:
    """`STATISTICS` of some norms; all but the first two are of finite norms, and empty without any."""
    finite = values[np.isfinite(values)].astype(np.float64)
    counts = [len(values), len(values) - len(finite)]
    if not len(finite):
        return [*counts, *[""] * (len(STATISTICS) - 2)]
    return [*counts, float(finite.mean()), float(finite.std()), *np.quantile(finite, (0, 0.25, 0.5, 0.75, 1)).tolist()]


def draw_norms(summaries: Sequence[AttentionSummary], shown: Mapping[str, str], title: str) -> Figure:
    """Figure with a row for every attention: queries and keys on one scale, a violin for each head and run."""
    labels = [f"{summary.label} ({summary.about})" for summary in summaries]
    lines = 3 * (1 + len(labels)) + legend_lines(NORMS_NOTE)
    columns, height, width = on_screen(len(shown), 1, 1.75, lines, 3)
    figure, axes = panels(2 * len(shown), 2 * columns, height, lines, width)
    for number, (name, attention) in enumerate(shown.items()):
        pair = axes[2 * number : 2 * number + 2]
        pair[1].sharey(pair[0])
        medians: list[float] = []
        for axis, of in zip(pair, ("queries", "keys"), strict=True):
            heads = [getattr(summary.norms[name], of) if name in summary.norms else [] for summary in summaries]
            medians += _panel(axis, heads)
            axis.set_title(panel_title(f"{attention}: {of}", 2 * columns, width))
        pair[0].set_ylabel("L2 norm")
        pair[1].tick_params(labelleft=False)
        if not medians:
            pair[0].set_yticks([])
        elif min(medians) > 0 and max(medians) / min(medians) > FAR_APART:
            pair[0].set_yscale("log")
        else:
            pair[0].set_ylim(bottom=0.0)
    for axis in axes[-2 * columns :]:
        axis.set_xlabel("head")
    handles = [Patch(**_look(number), label=fitted(label, figure)) for number, label in enumerate(labels)]
    legend_below(figure, NORMS_NOTE, 1, handles)
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


def draw_locality(summaries: Sequence[AttentionSummary], shown: Mapping[str, str], title: str) -> Figure:
    """Figure of locality: for one run, a panel for each stack of layers and a curve for each attention; for several
    runs, a panel for each attention and a curve for each run. `shown`: titles of the attentions by name, in order.
    """
    if len(summaries) == 1:
        parts = _by_stack(summaries[0], shown)
    else:
        parts = [
            (title_of, [(summary.label, summary.locality.get(name)) for summary in summaries])
            for name, title_of in shown.items()
        ]
    names = list(dict.fromkeys(label for _, curves in parts for label, _ in curves))
    looks = line_looks(names, None)
    lines = legend_lines(LOCALITY_NOTE, [*names, UNIFORM_LABEL]) + 2
    columns, height, width = on_screen(len(parts), min(2, len(parts)), 2.2, lines, 6)
    figure, axes = panels(len(parts), columns, height, lines, width, sharey=True, sharex=True)
    for number, (axis, (part, curves)) in enumerate(zip(axes, parts, strict=True)):
        _shares(axis, curves, looks)
        axis.set_title(panel_title(part, columns, width))
        if number + columns >= len(parts):
            axis.set_xlabel("neighbourhood, share of the length" if columns <= 3 else "neighbourhood")
            axis.tick_params(labelbottom=True)
    label_panels(figure, "share of the attention")
    legend_below(figure, LOCALITY_NOTE)
    named = f"{summaries[0].label}: " if len(summaries) == 1 else ""
    figure.suptitle(fitted(f"{named}{title}", figure), fontsize=9, parse_math=False)
    return figure


def draw_spread(runs: Sequence[tuple[str, Sequence[int], Sequence[float], Sequence[float], float]]) -> Figure:
    """Figure of gradient norms (smoothed over a hundredth of the steps), and below their relative standard deviation
    in a window that ends at each step; runs: label, steps, norms, running and overall relative deviation.
    """
    looks = line_looks([label for label, *_ in runs], None)
    note = _spread_note([len(steps) for _, steps, *_ in runs])
    figure, (above, below) = panels(2, 1, 1.9, legend_lines(note, [label for label, *_ in runs], 1), sharex=True)
    for number, (label, steps, norms, running, overall) in enumerate(runs):
        smooth = _smooth([math.nan if metric_units.problem(COLUMN, norm) else norm for norm in norms])
        above.plot(steps, smooth, **looks[label] | _marks(smooth, number))
        shown = metric_units.number(overall, metric_units.RATIO.name) if math.isfinite(overall) else "too few steps"
        below.plot(steps, running, label=f"{label}: {shown}", **looks[label] | _marks(running, number))
    logarithmic(above)
    above.set_ylabel("norm of gradients" + ("\n(smoothed)" if "smoothed" in note else ""))
    below.set_ylabel("relative sd\n(running)")
    if not any(math.isfinite(value) for _, _, _, running, _ in runs for value in running):
        shortest = min(len(steps) for _, steps, *_ in runs)
        empty_panel(below, f"{shortest} logged steps, a window needs {window_length(shortest)}")
    below.set_ylim(bottom=0.0)
    below.set_xlabel("optimiser step")
    legend_below(figure, note, 1)
    return figure


def _spread_note(lengths: Collection[int]) -> str:
    """The meaning of numbers and lines, by the logged steps of each run."""
    note = "number: relative sd of all logged steps, "
    note += f"running: of the last {span([window_length(n) for n in lengths])} logged steps"
    smoothed = [_window(n) for n in lengths]
    return note + (f", smoothed: mean of the last {span(smoothed)}" if max(smoothed) > 1 else "")


def _marks(values: Sequence[float] | np.ndarray, number: int) -> dict[str, Any]:
    """Markers at the first number of a line and at a few others, as those of many values touch each other."""
    first, step = next((at for at, value in enumerate(values) if math.isfinite(value)), 0), max(1, len(values) // 8)
    return {"markevery": [first, *range(first + step + number % 7, len(values), step)], "linewidth": 1.2}


def _smooth(values: Sequence[float]) -> np.ndarray:
    """Moving average: the mean of a window that ends at each value."""
    window = _window(len(values))
    padded = np.concatenate((np.full(window - 1, np.nan), values))
    return np.lib.stride_tricks.sliding_window_view(padded, window).mean(-1)


def _window(n: int) -> int:
    """Window of the moving average: a hundredth of all values."""
    return max(1, n // 100)


def _by_stack(summary: AttentionSummary, shown: Mapping[str, str]) -> list[tuple[str, list[Curve]]]:
    """Curves of each stack (encoder, decoder), at most six in a panel."""
    stacks: dict[str, list[Curve]] = {}
    for name, title in shown.items():
        stack, _, layer = title.partition(", ")
        stacks.setdefault(stack, []).append((layer or title, summary.locality[name]))
    return [
        (stack, curves[first : first + MOST_TOGETHER])
        for stack, curves in stacks.items()
        for first in range(0, len(curves), MOST_TOGETHER)
    ]


def _shares(axis: Axes, curves: Sequence[Curve], looks: Mapping[str, dict[str, Any]]) -> None:
    """One panel: the curves of some attentions or runs, and of uniform attention."""
    known = [locality for _, locality in curves if locality and locality.rows[0]]
    for number, (label, locality) in enumerate(curves):
        if locality and locality.rows[0]:
            axis.plot(RATIOS, locality.shares, label=label, markevery=(5 + 3 * number % 15, 20), **looks[label])
    if known:
        axis.plot(RATIOS, known[0].uniform, color="0.5", linewidth=1.2, linestyle=(0, (1, 1)), label=UNIFORM_LABEL)
    else:
        empty_panel(axis, "no query has any weight")
    axis.set_xlim(0.0, 1.0)
    axis.set_ylim(0.0, 1.02)
