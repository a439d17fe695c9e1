"""Relative standard deviation of gradient norms over training, from a run's metrics.csv; needs no torch.

Table 2 of Qin et al. 2022 divides the standard deviation of the gradient norms of all steps by their mean. Here the
steps are the logged ones (every `train.log_every`-th).
"""

import math
from collections.abc import Iterable, Sequence
from statistics import fmean, pstdev

from attnlab.learn.metric_units import problem

COLUMN = "train/gradient_norm"


def column(rows: Iterable[tuple[int, str, float]], name: str = COLUMN) -> tuple[list[int], list[float]]:
    """Steps and values of one metric, in the order of metrics.csv (`run.run_folder.MetricsFile.rows`)."""
    points = [(step, value) for step, other, value in rows if other == name]
    return [step for step, _ in points], [value for _, value in points]


def relative_sd(values: Iterable[float]) -> float:
    """Population standard deviation divided by the mean; nan for fewer than two values or a mean of 0.

    Values that are not finite (of steps that were skipped because float16 overflowed) or too large to sum are left out.
    """
    finite = [value for value in values if not problem(COLUMN, value)]
    # scaled below 1: squares of large values would overflow; a power of two changes no digits
    exponent = math.frexp(max(map(abs, finite), default=0.0))[1]
    scaled = [math.ldexp(value, -exponent) for value in finite]
    if len(scaled) < 2 or not (mean := fmean(scaled)):
        return math.nan
    return pstdev(scaled, mean) / mean


def window_length(n: int) -> int:
    """Window of the running standard deviation: a tenth of all values, at least ten."""
    return max(10, n // 10)


def running_relative_sd(values: Sequence[float], window: int) -> list[float]:
    """`relative_sd` of the last `window` values, at each value; nan at the first ones."""
    return [relative_sd(values[end - window : end]) if end >= window else math.nan for end in range(1, len(values) + 1)]
