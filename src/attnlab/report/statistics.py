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
"""seeds that an interval, or a statement on two groups, needs"""
APART, GAP = 10.0, 0.5


def mean(values: Sequence[float]) -> float:
    """The mean, summed without rounding errors."""
    return math.fsum(values) / len(values)


def sd(values: Sequence[float]) -> float | None:
    """Sample standard deviation, exactly 0 of equal values; None of fewer than two."""
    return statistics.stdev(values) if len(values) > 1 else None


def bimodal(values: Sequence[float]) -> bool:
    """Whether seeds fall into two groups: of at least five, two or more on each side of a gap of half their range.

    No run has the mean of such seeds. Fewer seeds do not show two groups.
    """
    ordered = sorted(values)
    inner = range(2, len(ordered) - 1)
    gap = max((ordered[rank] - ordered[rank - 1] for rank in inner), default=0.0)
    return len(ordered) >= FEWEST and gap > GAP * (ordered[-1] - ordered[0])


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
