"""Curves: accumulated attention by neighbourhood, and gradient norms over training."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnlab.analysis.gradient_norm_variation import COLUMN, window_length
from attnlab.analysis.locality import RATIOS, Locality
from attnlab.analysis.summary_types import AttentionSummary
from attnlab.learn import metric_units
from attnlab.plots.png_caption import span
from attnlab.plots.style import (
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

UNIFORM_LABEL = "uniform attention"
LOCALITY_NOTE = "line: mean over queries, heads and examples"
MOST_TOGETHER = 6
"""layers in one panel"""
Curve = tuple[str, Locality | None]


def draw_locality(summaries: Sequence[AttentionSummary], shown: Mapping[str, str], title: str) -> Figure:
    """Figure of locality: for one run, a panel for each stack of layers and a curve for each attention; for several
    runs, a panel for each attention and a curve for each run.

    Args:
        shown: titles of the attentions by name, in order.
        title: of the figure.
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
    in a window that ends at each step.

    Args:
        runs: label, steps, norms, running relative standard deviation, relative standard deviation of all steps.
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
