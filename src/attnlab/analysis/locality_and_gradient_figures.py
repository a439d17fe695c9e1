"""Curves: accumulated attention by neighbourhood, and gradient norms over training."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnlab.analysis.gradient_norm_variation import COLUMN
from attnlab.analysis.locality import RATIOS, Locality
from attnlab.analysis.summary_types import AttentionSummary
from attnlab.learn import metric_units
from attnlab.plots.style import GREYS, LINES, fitted, line_look, logarithmic, panels

MOST_TOGETHER = 6
"""layers in one panel"""
Curve = tuple[str, Locality | None]


def draw_locality(summaries: Sequence[AttentionSummary], shown: Mapping[str, str]) -> Figure:
    """Figure of locality: for one run, a panel for each stack of layers and a curve for each attention; for several
    runs, a panel for each attention and a curve for each run.

    Args:
        shown: titles of the attentions by name, in order.
    """
    if len(summaries) == 1:
        parts = _by_stack(summaries[0], shown)
    else:
        parts = [
            (title, [(summary.label, summary.locality.get(name)) for summary in summaries])
            for name, title in shown.items()
        ]
    columns = 2 if len(parts) == 4 else min(3, len(parts))
    legend = len(summaries) + 1 if len(summaries) > 1 else 0
    figure, axes = panels(len(parts), columns, max(3.0, 4.8 / columns), 2.5, legend, sharey=True)
    for number, (axis, (title, curves)) in enumerate(zip(axes, parts, strict=True)):
        _shares(axis, curves)
        axis.set_title(title)
        if number % columns == 0:
            axis.set_ylabel("share of the attention")
        if number + columns >= len(parts):
            axis.set_xlabel("neighbourhood, share of the length")
        if len(summaries) == 1:
            axis.legend(loc="lower right", fontsize=7, handlelength=3)
    if len(summaries) > 1:
        entries = {label: line for axis in axes for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
        figure.legend(entries.values(), entries, loc="outside lower left", handlelength=3)
    abouts = list(dict.fromkeys(summary.about.partition(",")[0] for summary in summaries))
    run = f"{summaries[0].label}: " if len(summaries) == 1 else ""
    title = f"{run}accumulated attention by neighbourhood, {'; '.join(abouts)}"
    figure.suptitle(fitted(title, figure), fontsize=9)
    return figure


def draw_spread(runs: Sequence[tuple[str, Sequence[int], Sequence[float], Sequence[float], float]]) -> Figure:
    """Figure of gradient norms (smoothed over a hundredth of the steps), and below their relative standard deviation
    in a window that ends at each step.

    Args:
        runs: label, steps, norms, running relative standard deviation, relative standard deviation of all steps.
    """
    figure, (above, below) = panels(2, 1, 6.0, 2.1, legend=len(runs), sharex=True)
    for number, (label, steps, norms, running, overall) in enumerate(runs):
        # markers at a few steps only: lines of many values touch each other
        look = _look(number) | {"markevery": (number % 7, max(1, len(steps) // 8)), "linewidth": 0.9}
        shown = [math.nan if metric_units.problem(COLUMN, norm) else norm for norm in norms]
        above.plot(steps, _smooth(shown), **look)
        said = metric_units.number(overall, metric_units.RATIO.name) if math.isfinite(overall) else "too few steps"
        below.plot(steps, running, label=f"{label}: {said}", **look)
    logarithmic(above)
    smoothed = any(_window(norms) > 1 for _, _, norms, _, _ in runs)
    above.set_ylabel("norm of gradients" + ("\n(smoothed)" if smoothed else ""))
    below.set_ylabel("relative sd\n(running)")
    below.set_ylim(bottom=0.0)
    below.set_xlabel("step")
    figure.legend(loc="outside upper left", handlelength=3, title="relative sd of all logged steps", alignment="left")
    return figure


def _smooth(values: Sequence[float]) -> np.ndarray:
    """Moving average: the mean of a window that ends at each value."""
    window = _window(values)
    padded = np.concatenate((np.full(window - 1, np.nan), values))
    return np.lib.stride_tricks.sliding_window_view(padded, window).mean(-1)


def _window(values: Sequence[float]) -> int:
    return max(1, len(values) // 100)


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


def _shares(axis: Axes, curves: Sequence[Curve]) -> None:
    uniform = next(locality.uniform for _, locality in curves if locality)
    axis.plot(RATIOS, uniform, color="0.6", linewidth=0.8, linestyle=(0, (1, 1)), label="uniform attention")
    for number, (label, locality) in enumerate(curves):
        # numbered also without this attention, so that a run looks the same in all panels
        if locality:
            axis.plot(RATIOS, locality.shares, label=label, markevery=(5 + 3 * number % 15, 20), **_look(number))
    axis.set_xlim(0.0, 1.0)
    axis.set_ylim(0.0, 1.02)


def _look(number: int) -> dict[str, Any]:
    """Shade, dashes and marker of line number `number`: dark and light in turn."""
    return line_look(number) | {
        "color": GREYS[number % 2],
        "linestyle": LINES[number // 2 % len(LINES)],
        "markerfacecolor": "white" if number % 2 else GREYS[0],
    }
