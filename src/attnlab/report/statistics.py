"""Means, spreads, intervals and tests over a handful of seeds."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

FEWEST = 5
"""seeds that an interval and a test need"""
LEVEL = 0.05
"""of tests; intervals cover 1 - LEVEL"""
NORMAL = "t intervals and paired t-tests assume that the differences are normal"
EQUAL = 1e-9
"""share of the differences that rounding may leave between equal ones"""


def mean(values: Sequence[float]) -> float:
    """The mean, summed without rounding errors."""
    return math.fsum(values) / len(values)


def sd(values: Sequence[float]) -> float | None:
    """Sample standard deviation, exactly 0 of equal values; None of fewer than two."""
    return statistics.stdev(values) if len(values) > 1 else None


@dataclass(frozen=True)
class PairedDifference:
    """The difference of two rows over the seeds that both have.

    by_seed:   differences, by seed.
    low, high: ends of the interval.
    p:         of the two-sided paired t-test; None without a test.
    method:    the interval in words.
    """

    by_seed: Mapping[int, float]
    mean: float
    low: float
    high: float
    p: float | None
    method: str


def paired(ours: Mapping[int, float], against: Mapping[int, float], beyond: float = 0.0) -> PairedDifference | None:
    """The mean difference over common seeds with its interval and test.

    From five seeds on, interval and test are Student's for the mean of the paired differences, which they assume to be
    normal: seeds that fall into successes and failures are not, and are counted instead (`report.failures`). With fewer
    seeds the interval is the range of the differences, which has no coverage, and there is no test; nor where all
    differences are equal, which leaves no spread to test with. None with fewer than two common seeds.

    Args:
        beyond: the difference that the test asks about; the interval does not depend on it.
    """
    by_seed = {seed: ours[seed] - against[seed] for seed in sorted(ours.keys() & against.keys())}
    differences = list(by_seed.values())
    if len(by_seed) < 2:
        return None
    if len(by_seed) < FEWEST:
        ends = min(differences), max(differences)
        return PairedDifference(by_seed, mean(differences), *ends, None, f"range over {len(by_seed)} paired seeds")
    low, high = interval(differences)
    if high - low <= EQUAL * max(abs(low), abs(high)):
        method = f"equal in all {len(by_seed)} seeds, so that there is no spread for an interval or a test"
        return PairedDifference(by_seed, mean(differences), low, high, None, method)
    method = f"95 % paired t interval, {len(by_seed)} seeds"
    return PairedDifference(by_seed, mean(differences), low, high, t_test(differences, beyond), method)


def interval(values: Sequence[float], coverage: float = 1 - LEVEL) -> tuple[float, float]:
    """Student's interval of the mean of at least two normal values; a single point if all are equal."""
    # a third of a second
    from scipy import stats

    center, spread = mean(values), statistics.stdev(values)
    reach = float(stats.t.ppf((1 + coverage) / 2, len(values) - 1)) * spread / math.sqrt(len(values))
    return center - reach, center + reach


def t_test(values: Sequence[float], expected: float = 0.0) -> float:
    """Two-sided p-value of Student's test that the mean of at least two normal values is `expected`; not all equal."""
    from scipy import stats

    return float(stats.ttest_1samp(values, expected).pvalue)


def p_number(p: float) -> str:
    """A p-value: `0.034`, `< 0.001`."""
    return "< 0.001" if p < 0.001 else f"{min(p, 1.0):.3f}"


def p_text(p: float) -> str:
    """A p-value in words: `p = 0.034`, `p < 0.001`."""
    return f"p {p_number(p)}" if p < 0.001 else f"p = {p_number(p)}"


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
