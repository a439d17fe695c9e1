"""How much the norm of the gradients scatters over training, from a run's metrics.csv; needs no torch.

The relative standard deviation of table 2 of Qin et al. 2022 is the standard deviation of the gradient norms of all
steps over their mean. Here it is taken over the steps that were logged (every `train.log_every`-th).
"""

import math
from collections.abc import Iterable, Sequence
from statistics import fmean, pstdev

from attnlab.learn.metric_units import problem

COLUMN = "train/gradient_norm"


def column(rows: Iterable[tuple[int, str, float]], name: str = COLUMN) -> tuple[list[int], list[float]]:
    """Steps and values of one metric, in the order of metrics.csv (`record.MetricsFile.rows`)."""
    found = [(step, value) for step, other, value in rows if other == name]
    return [step for step, _ in found], [value for _, value in found]


def relative_sd(values: Iterable[float]) -> float:
    """Population standard deviation over mean; nan where there is none: fewer than two values, or a mean of 0.

    Values that are not finite (a step that float16 overflowed in, and that was skipped) do not count, nor do those
    beyond what can be added up.
    """
    finite = [value for value in values if not problem(COLUMN, value)]
    # of values below 1: the squares of large ones would overflow; powers of two leave the digits as they are
    exponent = math.frexp(max(map(abs, finite), default=0.0))[1]
    scaled = [math.ldexp(value, -exponent) for value in finite]
    if len(scaled) < 2 or not (mean := fmean(scaled)):
        return math.nan
    return pstdev(scaled, mean) / mean


def window_length(n: int) -> int:
    """Values that the running figure looks back on: a tenth of all, at least ten."""
    return max(10, n // 10)


def running_relative_sd(values: Sequence[float], window: int) -> list[float]:
    """At each value, `relative_sd` of the last `window` ones; nan until there are as many."""
    return [relative_sd(values[end - window : end]) if end >= window else math.nan for end in range(1, len(values) + 1)]
