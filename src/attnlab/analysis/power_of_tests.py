"""What so many seeds can show, by the tests of hypotheses; for reports of finished runs and for plans of sweeps."""

import math

from attnlab.config.report_block import Hypothesis
from attnlab.learn.metric_units import number

LEVEL = 0.05
"""of tests; intervals cover 1 - LEVEL"""
POWER = 0.8
"""of the test, for the smallest difference that a sentence names (`smallest_shown`)"""
DRAWS = 4_000
"""simulated pairs of rows"""
MOST_RATIO = 1_000.0
"""of standard deviations, beyond which none is looked for"""


def smallest_shown(n: int, spread: float, tests: int, power: float = POWER, fitted: int = 1) -> float:
    """The smallest true difference from a bound that n normal values show to be on its side, with some power.

    The standard deviation of the values is taken for the true one, and the level is half of `LEVEL / tests`, as each
    end of an interval has it. By the noncentral t distribution.

    Args:
        n: values, more than `fitted`.
        spread: their standard deviation; the difference has its unit.
        fitted: coefficients that are estimated from the values: the mean, or intercept and slope.
    """
    # a third of a second
    from scipy import special, stats

    free = n - fitted
    needed = float(stats.t.isf(LEVEL / tests / 2, free))
    return float(special.nctdtrinc(free, 1 - power, needed)) * spread / math.sqrt(n)


def shown_difference(
    claim: Hypothesis, n: int, spread: float, tests: int, unit: str, units: str = "seeds", fitted: int = 1
) -> str:
    """The difference or margin that n paired differences show, in words: `20 seeds show a difference of 3.1 with 80 %
    power`.

    Args:
        spread: standard deviation of the differences, in a unit (its name).
        units: what is counted.
        fitted: as in `smallest_shown`.
    """
    # equivalence needs both ends
    power = (1 + POWER) / 2 if claim.within is not None else POWER
    size = smallest_shown(n, spread, tests, power, fitted)
    is_margin = claim.within is not None or claim.not_worse_by is not None
    quantity, condition = ("margin", ", if the rows are equal") if is_margin else ("difference", "")
    shown = number(size + (claim.at_least or 0.0), unit, bounds=[claim.at_least or 0.0])
    return f"{n} {units} show a {quantity} of {shown} with {100 * POWER:.0f} % power{condition}"


def fisher(ours: tuple[int, int], theirs: tuple[int, int]) -> float:
    """Two-sided p of Fisher's exact test between two pairs of failures and runs."""
    # half a second
    from scipy.stats import fisher_exact

    return float(fisher_exact([[failed, n - failed] for failed, n in (ours, theirs)]).pvalue)


def fewest_failures(ours: tuple[int, int], others: int, tests: int) -> int | None:
    """The smallest number of failures of `others` runs that is a significantly larger share than ours (failures and
    runs); None where even their failing all is not."""
    more = range(math.ceil(ours[0] * others / ours[1]), others + 1)
    return next((count for count in more if fisher(ours, (count, others)) * tests <= LEVEL), None)


def least_log_rank(n: int, others: int) -> float:
    """The smallest two-sided p-value of the exact log-rank test of two rows: all runs of one before all of the other.

    In rows of one size exchanging them is as extreme.
    """
    return min(1.0, (2 if n == others else 1) / math.comb(n + others, n))


def smallest_ratio(n: int, tests: int) -> float | None:
    """The smallest ratio of the standard deviations of two normal rows of n that Brown and Forsythe's test shows with
    power `POWER`, to a few percent, as it is simulated; None above `MOST_RATIO`."""
    import numpy as np
    from scipy import stats

    draws = np.random.default_rng(0).standard_normal((2, DRAWS, n))
    distances = np.abs(draws - np.median(draws, axis=-1, keepdims=True))
    means, variances = distances.mean(-1), distances.var(-1, ddof=1)
    needed = stats.f.isf(LEVEL / tests, 1, 2 * n - 2)

    def power(ratio: float) -> float:
        shift = ratio * means[1] - means[0]
        return float(np.mean(n * shift**2 >= needed * (variances[0] + ratio**2 * variances[1])))

    low, high = 1.0, MOST_RATIO
    if power(high) < POWER:
        return None
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high
