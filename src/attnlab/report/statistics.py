"""Means, spreads and intervals over a handful of seeds."""

import itertools
import math
import random
import statistics
from collections.abc import Iterable, Mapping, Sequence

ENUMERATED = 5
"""up to this many seeds every resample is taken (5^5 = 3,125), beyond it `DRAWS` random ones"""
DRAWS = 2_000
FEWEST = 5
"""seeds that an interval needs"""
APART = 10.0
LEVEL = 0.05
"""of tests; intervals cover 1 - LEVEL"""


def mean(values: Sequence[float]) -> float:
    """The mean, summed without rounding errors."""
    return math.fsum(values) / len(values)


def sd(values: Sequence[float]) -> float | None:
    """Sample standard deviation, exactly 0 of equal values; None of fewer than two."""
    return statistics.stdev(values) if len(values) > 1 else None


def paired(ours: Mapping[int, float], against: Mapping[int, float]) -> tuple[float, float, float, str] | None:
    """Mean difference over common seeds, lower and upper end of its interval, and the method.

    From five seeds on, the interval is a 95 % percentile bootstrap of the paired differences. With fewer it is their
    range, which has no coverage. None with fewer than two common seeds.
    """
    seeds = sorted(ours.keys() & against.keys())
    differences = [ours[seed] - against[seed] for seed in seeds]
    if len(seeds) < 2:
        return None
    if len(seeds) < FEWEST:
        return mean(differences), min(differences), max(differences), f"range over {len(seeds)} paired seeds"
    low, high = interval(differences)
    return mean(differences), low, high, f"95 % paired bootstrap, {len(seeds)} seeds"


def interval(values: Sequence[float], coverage: float = 0.95) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean; the same values give the same interval."""
    draws: Iterable[Sequence[float]]
    if len(values) <= ENUMERATED:
        draws = itertools.product(values, repeat=len(values))
    else:
        source = random.Random(0)
        draws = (source.choices(values, k=len(values)) for _ in range(DRAWS))
    means = sorted(mean(draw) for draw in draws)
    tail = (1 - coverage) / 2
    return means[math.floor(tail * (len(means) - 1))], means[math.ceil((1 - tail) * (len(means) - 1))]


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values of several tests, corrected by Holm's step-down method, in the given order.

    The chance of one or more false rejections among all tests is at most the level (Holm 1979).
    """
    order = sorted(range(len(p_values)), key=lambda at: p_values[at])
    corrected, largest = list(p_values), 0.0
    for rank, at in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[at]))
        corrected[at] = largest
    return corrected
