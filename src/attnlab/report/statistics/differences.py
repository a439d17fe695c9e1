"""Differences of two rows over a handful of seeds: intervals and tests, ranks where runs diverged, claimed ranges."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from attnlab.analysis.power_of_tests import LEVEL, shown_difference
from attnlab.config.report_block import FEWEST, Hypothesis
from attnlab.learn.metric_units import lower_is_better

if TYPE_CHECKING:
    import numpy as np

NORMAL = "t intervals and paired t-tests assume that the differences are normal"
DIGITS = 9
"""of the larger of two numbers, to which their difference is exact"""
MOST_EXACT = 200
"""runs of both rows, up to which the p-value is exact; from there on by the normal approximation"""
SUPPORTED, REFUTED, UNDECIDED = VERDICTS = ("supported", "refuted", "undecided")


def mean(values: Sequence[float]) -> float:
    """The mean, summed without rounding errors."""
    return math.fsum(values) / len(values)


def sd(values: Sequence[float]) -> float | None:
    """Sample standard deviation, exactly 0 of equal values; None of fewer than two."""
    return statistics.stdev(values) if len(values) > 1 else None


@dataclass(frozen=True)
class RankTest:
    """Exact Mann-Whitney test of two rows of runs.

    A run that diverged (None) ranks below every number, as a mean would leave out the worst runs. Rows are not paired:
    by signs, five pairs cannot differ at 5 %.

    lower: whether lower numbers are better.
    worst: the worst possible value of the metric; no number is shifted beyond it.
    """

    ours: Sequence[float | None]
    theirs: Sequence[float | None]
    lower: bool
    worst: float

    @cached_property
    def ahead(self) -> float:
        """Share of all pairs of runs in which ours is better, equal ones half."""
        ours, theirs = self._goodness(0.0)
        wins = sum((number > other) + 0.5 * (number == other) for number in ours for other in theirs)
        return wins / (len(ours) * len(theirs))

    @property
    def diverged(self) -> tuple[int, int]:
        """How many runs of each row diverged."""
        return self.ours.count(None), self.theirs.count(None)

    @property
    def p(self) -> float:
        """Two-sided p-value of equal rows: twice the smaller tail."""
        return min(1.0, 2 * min(self.one_sided(0.0)))

    def one_sided(self, end: float) -> tuple[float, float]:
        """The p-values of the claims that ours - theirs is above an end, and that it is below.

        Rows are compared after the end is taken from our numbers (as in the Hodges-Lehmann interval); a number that
        the metric cannot have then ranks with the diverged runs.
        """
        better, worse = _rank_sum(*self._goodness(end))
        return (worse, better) if self.lower else (better, worse)

    def _goodness(self, end: float) -> tuple[list[float], list[float]]:
        """The numbers of both rows, higher is better, ours less an end; infinitely low for diverged runs."""
        sign, last = -1 if self.lower else 1, -math.inf
        ours = [last if value is None else sign * (value - end) for value in self.ours]
        theirs = [last if value is None else sign * value for value in self.theirs]
        return [value if value >= sign * self.worst else last for value in ours], theirs


@dataclass(frozen=True)
class PairedDifference:
    """The difference of two rows over the seeds that both have.

    mean, low, high: with the ends of the interval; None where runs are compared by ranks.
    p:         two-sided, of no difference; None without a test.
    corrected: p by Bonferroni's correction over `tests`, at most 0.05 where the interval leaves out 0.
    method:    interval and test in words.
    units:     what is counted, if not seeds: data seeds.
    fit:       where the mean is that of rows alike in another column (`adjusted`): its standard error.
    """

    by_seed: Mapping[int, float]
    mean: float | None
    low: float | None
    high: float | None
    p: float | None
    method: str
    ranks: RankTest | None = None
    tests: int = 1
    units: str | None = None
    fit: float | None = None

    @property
    def corrected(self) -> float | None:
        return bonferroni(self.p, self.tests)

    @property
    def is_tested(self) -> bool:
        """Whether it counts among the tests that are corrected for: there are enough seeds, also if all are equal."""
        return self.p is not None or (self.ranks is None and len(self.by_seed) >= FEWEST)

    @property
    def differences(self) -> list[float]:
        return list(self.by_seed.values())

    @property
    def fitted(self) -> int:
        """Coefficients that are estimated from the differences: the mean, or intercept and slope."""
        return 1 if self.fit is None else 2

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return statistics.stdev(self.differences) / math.sqrt(len(self.by_seed)) if self.fit is None else self.fit

    def one_sided(self, end: float) -> tuple[float, float]:
        """The p-values of the claims that the difference is above an end, and that it is below; needs `p`."""
        if math.isinf(end):
            return (0.0, 1.0) if end < 0 else (1.0, 0.0)
        if self.ranks is not None:
            return self.ranks.one_sided(end)
        from scipy import stats

        assert self.mean is not None, "only ranks have none"
        score, free = (self.mean - end) / self.error, len(self.by_seed) - self.fitted
        return float(stats.t.sf(score, free)), float(stats.t.cdf(score, free))


def paired(
    ours: Mapping[int, float], against: Mapping[int, float], tests: int = 1, units: str | None = None
) -> PairedDifference | None:
    """The mean difference over common seeds with its interval and test.

    From five seeds on, interval and test are Student's for the mean of the paired differences. With fewer seeds the
    interval is the range of the differences, which has no coverage, and there is no test. Where all differences are
    equal the interval is a point, without a p-value. None with fewer than two common seeds.

    Args:
        tests: how many tests are made together. All their intervals contain their differences at once with a
            probability of 95 % or more (Bonferroni), and an interval leaves out a value where the corrected p is at
            most 0.05.
        units: what is counted, if not seeds: data seeds, each with the mean of its seeds.
    """
    by_seed = {seed: difference(ours[seed], against[seed]) for seed in sorted(ours.keys() & against.keys())}
    differences, n, words = list(by_seed.values()), len(by_seed), units or "seeds"
    if n < 2:
        return None
    if n < FEWEST:
        ends = min(differences), max(differences)
        return PairedDifference(by_seed, mean(differences), *ends, None, f"range over {n} paired {words}", units=units)
    low, high = interval(differences, 1 - LEVEL / tests)
    if low == high:
        return PairedDifference(by_seed, low, low, high, None, f"equal in all {n} {words}", tests=tests, units=units)
    # two-sided by the interval's distribution: twice the smaller tail
    together = f", corrected for {tests} tests" if tests > 1 else ""
    method = f"95 % paired t interval{together}, {n} {words}"
    pair = PairedDifference(by_seed, mean(differences), low, high, None, method, tests=tests, units=units)
    return replace(pair, p=2 * min(pair.one_sided(0.0)))


def adjusted(pair: PairedDifference, given: PairedDifference, name: str) -> PairedDifference | None:
    """The difference of two rows that are alike in another column, with its interval and test.

    It is the intercept of the least squares line of the differences over those in the other column, of the same seeds;
    its interval and test are Student's with n - 2 degrees of freedom. A line without residuals has a point as interval
    and no p-value. None where all differences in the other column are equal, which have no slope.

    Args:
        pair: of three seeds or more, not by ranks.
        given: of the same seeds, in the unit of the other column.
        name: of the other column.
    """
    from scipy import stats

    other = [given.by_seed[seed] for seed in pair.by_seed]
    if len(set(other)) == 1:
        return None
    line = stats.linregress(other, pair.differences)
    center, error, n = float(line.intercept), float(line.intercept_stderr), len(other)
    # of a line without residuals both are rounding errors
    least = 10.0 ** (2 - DIGITS) * max(map(abs, pair.differences))
    if error < least:
        center, error = (center if abs(center) >= least else 0.0), 0.0
    reach = float(stats.t.isf(LEVEL / pair.tests / 2, n - 2)) * error
    together = f", corrected for {pair.tests} tests" if pair.tests > 1 else ""
    method = f"adjusted for {name}, 95 % t interval of the intercept{together}, {n} {pair.units or 'seeds'}"
    fit = replace(pair, mean=center, low=center - reach, high=center + reach, p=None, method=method, fit=error)
    return replace(fit, p=2 * min(fit.one_sided(0.0))) if error else fit


def difference(ours: float, against: float) -> float:
    """A difference without the rounding errors of its two numbers: equal differences are equal, as are 0.1 + 0.2 and
    0.3."""
    scale = max(abs(ours), abs(against))
    return round(ours - against, DIGITS - math.ceil(math.log10(scale))) if scale else 0.0


def interval(values: Sequence[float], coverage: float = 1 - LEVEL) -> tuple[float, float]:
    """Student's interval of the mean of at least two normal values; a single point if all are equal."""
    # a third of a second
    from scipy import stats

    center, spread = mean(values), statistics.stdev(values)
    if spread == 0:
        return values[0], values[0]
    reach = float(stats.t.isf((1 - coverage) / 2, len(values) - 1)) * spread / math.sqrt(len(values))
    return center - reach, center + reach


def bonferroni(p: float | None, tests: int) -> float | None:
    """A p-value, corrected for the number of tests."""
    return None if p is None else min(1.0, p * tests)


def p_number(p: float) -> str:
    """A p-value: `0.034`, `< 0.001`."""
    return "< 0.001" if p < 0.001 else f"{min(p, 1.0):.3f}"


def p_text(p: float) -> str:
    """A p-value in words: `p = 0.034`, `p < 0.001`."""
    return f"p {p_number(p)}" if p < 0.001 else f"p = {p_number(p)}"


def smallest_share(n: int, others: int, level: float) -> float | None:
    """The smallest share of pairs, in which a row of n runs is better than another one, that is significant at a level
    of both sides together; None where even a row that is better in all pairs is not."""
    shares = _shares_of_sums([2 * rank for rank in range(1, n + others + 1)], n)
    tails = shares[::-1].cumsum()[::-1]
    significant = ((2 * tails <= level) & (shares > 0)).nonzero()[0]
    return (float(significant[0]) / 2 - n * (n + 1) / 2) / (n * others) if len(significant) else None


def _rank_sum(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """One-sided p-values of higher and of lower ranks in the first row, equal values with their mean rank."""
    # a third of a second
    from scipy import stats

    if len(ours) + len(theirs) > MOST_EXACT:
        better, worse = (
            float(stats.mannwhitneyu(ours, theirs, alternative=side, method="asymptotic").pvalue)
            for side in ("greater", "less")
        )
        return better, worse
    # mean ranks are multiples of a half
    ranks = [round(2 * rank) for rank in stats.rankdata([*ours, *theirs])]
    shares, total = _shares_of_sums(ranks, len(ours)), sum(ranks[: len(ours)])
    return float(shares[total:].sum()), float(shares[: total + 1].sum())


def _shares_of_sums(ranks: Sequence[int], n: int) -> "np.ndarray":
    """The share of the choices of n ranks that has each sum; all choices are equally probable if rows are alike."""
    import numpy as np

    choices = np.zeros((n + 1, sum(ranks) + 1))
    choices[0, 0] = 1
    for rank in ranks:
        choices[1:, rank:] += choices[:-1, :-rank]
    return choices[-1] / choices[-1].sum()


@dataclass(frozen=True)
class ClaimedRange:
    """A range of differences, row - than, in the unit of the column; one end may be infinite.

    is_open: an end is no part of the range: a difference of zero is no difference in a direction.
    """

    low: float
    high: float
    is_open: bool = False

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """Both ends; None where there is none."""
        low, high = (end if math.isfinite(end) else None for end in (self.low, self.high))
        return low, high

    def holds(self, value: float) -> bool:
        """Whether a difference lies in the range."""
        return self.contains(value, value)

    def contains(self, low: float, high: float) -> bool:
        """Whether an interval lies in the range."""
        return (self.low < low and high < self.high) if self.is_open else (self.low <= low and high <= self.high)

    def excludes(self, low: float, high: float) -> bool:
        """Whether an interval lies outside the range."""
        return (high <= self.low or self.high <= low) if self.is_open else (high < self.low or self.high < low)


def claimed_range(claim: Hypothesis, metric: str) -> ClaimedRange:
    """The range of a hypothesis on a difference."""
    sign = -1 if claim.direction == "lower" or (claim.direction == "better" and lower_is_better(metric)) else 1
    if claim.within is not None:
        return ClaimedRange(-claim.within, claim.within)
    if claim.not_worse_by is not None:
        end, is_open = -claim.not_worse_by, False
    else:
        end, is_open = claim.at_least or 0.0, claim.at_least is None
    return ClaimedRange(end, math.inf, is_open) if sign > 0 else ClaimedRange(-math.inf, 0.0 - end, is_open)


def verdict(pair: PairedDifference, claimed: ClaimedRange) -> str:
    """Supported where the corrected interval lies in the claimed range, refuted where it lies outside, else undecided.

    Ranks have no interval. There, each end of the range is tested at the level that the end of an interval has. They
    pass over a small share of diverged runs, so nothing is supported of which a diverged run is a counterexample.
    """
    if pair.low is not None and pair.high is not None:
        inside, outside = claimed.contains(pair.low, pair.high), claimed.excludes(pair.low, pair.high)
    else:
        level, (inside_p, outside_p) = LEVEL / pair.tests / 2, _one_sided(pair, claimed)
        inside, outside = inside_p <= level and not _diverged_outside(pair, claimed), outside_p <= level
    return SUPPORTED if inside else REFUTED if outside else UNDECIDED


def influential_seeds(pair: PairedDifference, claimed: ClaimedRange) -> list[int]:
    """The seeds without one of which a verdict would be another; empty with fewer than six, for ranks, and for
    adjusted differences, which are an analysis beside the difference itself."""
    if pair.ranks is not None or pair.fit is not None or len(pair.by_seed) <= FEWEST:
        return []
    decided, influential = verdict(pair, claimed), []
    for seed in pair.by_seed:
        rest = {other: gain for other, gain in pair.by_seed.items() if other != seed}
        without = paired(rest, dict.fromkeys(rest, 0.0), pair.tests, pair.units)
        if without is not None and verdict(without, claimed) != decided:
            influential.append(seed)
    return influential


def _diverged_outside(pair: PairedDifference, claimed: ClaimedRange) -> bool:
    """Whether runs diverged of rows that are claimed to be equal or hardly worse: no margin is as large."""
    if pair.ranks is None or not claimed.holds(0.0):
        return False
    ours, theirs = pair.ranks.diverged
    has_two_ends = math.isfinite(claimed.low) and math.isfinite(claimed.high)
    return ours + (theirs if has_two_ends else 0) > 0


def p_value(pair: PairedDifference, claimed: ClaimedRange) -> float | None:
    """Twice the one-sided p-value of the claim that the difference lies in the range, or outside, whichever is smaller.

    For a range with two ends the first is the larger p-value of two one-sided tests (Schuirmann 1987). None without a
    test.
    """
    return None if pair.p is None else min(1.0, 2 * min(_one_sided(pair, claimed)))


def _one_sided(pair: PairedDifference, claimed: ClaimedRange) -> tuple[float, float]:
    """The p-values of the claims that the difference lies in the range, and that it lies outside."""
    (above_low, below_low), (above_high, below_high) = map(pair.one_sided, (claimed.low, claimed.high))
    return max(above_low, below_high), min(below_low, above_high)


def undecided_text(pair: PairedDifference, claim: Hypothesis, claimed: ClaimedRange, unit: str) -> str:
    """Why a claim is undecided, in words: diverged runs, else the smallest difference that so many seeds show."""
    if _diverged_outside(pair, claimed):
        return "a diverged run differs by more than any margin"
    if pair.ranks is not None:
        share = smallest_share(len(pair.ranks.ours), len(pair.ranks.theirs), LEVEL / pair.tests)
        if share is None:
            return "so few runs cannot show a difference by ranks: more seeds are needed"
        return f"with so many runs a verdict needs a row that is better in {math.ceil(100 * share)} % of the pairs"
    n = len(pair.by_seed)
    spread = pair.error * math.sqrt(n)
    return f"at this spread {shown_difference(claim, n, spread, pair.tests, unit, pair.units or 'seeds', pair.fitted)}"
