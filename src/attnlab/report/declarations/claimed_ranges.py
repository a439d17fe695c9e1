"""The range of differences that a hypothesis claims, and whether a measured difference lies in it."""

import math
from dataclasses import dataclass

from attnlab.config.report_block import Hypothesis
from attnlab.learn.metric_units import lower_is_better, number
from attnlab.report.statistics.differences import LEVEL, POWER, PairedDifference, smallest_share, smallest_shown

SUPPORTED, REFUTED, UNDECIDED = VERDICTS = ("supported", "refuted", "undecided")


@dataclass(frozen=True)
class ClaimedRange:
    """A range of differences, row - than, in the unit of the column; one end may be infinite.

    is_open: whether an end is no part of the range: a difference of zero is no difference in a direction.
    """

    low: float
    high: float
    is_open: bool = False

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
    return ClaimedRange(end, math.inf, is_open) if sign > 0 else ClaimedRange(-math.inf, -end, is_open)


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
            return "so few runs show no difference by ranks: more seeds are needed"
        return f"with so many runs a verdict needs a row that is better in {math.ceil(100 * share)} % of the pairs"
    # equivalence needs both ends
    power = (1 + POWER) / 2 if claim.within is not None else POWER
    size = smallest_shown(pair.differences, pair.tests, power)
    is_margin = claim.within is not None or claim.not_worse_by is not None
    what, condition = ("margin", ", if the rows are equal") if is_margin else ("difference", "")
    shown = number(size + (claim.at_least or 0.0), unit)
    units = f"{len(pair.by_seed)} {pair.units or 'seeds'}"
    return f"at this spread {units} show a {what} of {shown} with {100 * POWER:.0f} % power{condition}"
