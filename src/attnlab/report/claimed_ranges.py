"""The range of differences that a hypothesis claims, and whether a measured difference lies in it."""

import math
from dataclasses import dataclass

from attnlab.config.report_block import Hypothesis
from attnlab.learn.metric_units import lower_is_better, number
from attnlab.report.rank_test import smallest_share
from attnlab.report.statistics import LEVEL, POWER, PairedDifference, smallest_shown

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


def claimed_range(asked: Hypothesis, metric: str) -> ClaimedRange:
    """The range of a hypothesis on a difference."""
    sign = -1 if asked.direction == "lower" or (asked.direction == "better" and lower_is_better(metric)) else 1
    if asked.within is not None:
        return ClaimedRange(-asked.within, asked.within)
    if asked.not_worse_by is not None:
        end, is_open = -asked.not_worse_by, False
    else:
        end, is_open = asked.at_least or 0.0, asked.at_least is None
    return ClaimedRange(end, math.inf, is_open) if sign > 0 else ClaimedRange(-math.inf, -end, is_open)


def verdict(found: PairedDifference, claimed: ClaimedRange) -> str:
    """Supported where the corrected interval lies in the claimed range, refuted where it lies outside, else undecided.

    Ranks have no interval. There, each end of the range is tested at the level that the end of an interval has.
    """
    if found.low is not None and found.high is not None:
        inside, outside = claimed.contains(found.low, found.high), claimed.excludes(found.low, found.high)
    else:
        level = LEVEL / found.tests / 2
        (above_low, below_low), (above_high, below_high) = map(found.one_sided, (claimed.low, claimed.high))
        inside, outside = max(above_low, below_high) <= level, min(below_low, above_high) <= level
    return SUPPORTED if inside else REFUTED if outside else UNDECIDED


def p_value(found: PairedDifference, claimed: ClaimedRange) -> float | None:
    """The two-sided p-value of a difference at the end of the range; of a range with two ends, twice the larger of both
    one-sided ones (two one-sided tests, Schuirmann 1987). None without a test."""
    if found.p is None:
        return None
    ends = [end for end in (claimed.low, claimed.high) if math.isfinite(end)]
    if len(ends) > 1:
        return min(1.0, 2 * max(found.one_sided(claimed.low)[0], found.one_sided(claimed.high)[1]))
    return min(1.0, 2 * min(found.one_sided(ends[0])))


def smallest_text(found: PairedDifference, asked: Hypothesis, unit: str) -> str:
    """The smallest difference that so many seeds show, in words, for a claim that is undecided."""
    if found.ranks is not None:
        share = smallest_share(len(found.ranks.ours), len(found.ranks.theirs), LEVEL / found.tests)
        if share is None:
            return "so few runs show no difference by ranks: more seeds are needed"
        return f"so many runs show a row that is better in {math.ceil(100 * share)} % of the pairs of runs"
    # equivalence needs both ends
    power = (1 + POWER) / 2 if asked.within is not None else POWER
    size = smallest_shown(found.differences, found.tests, power)
    is_margin = asked.within is not None or asked.not_worse_by is not None
    what, given = ("margin", ", if the rows are equal") if is_margin else ("difference", "")
    shown = number(size + (asked.at_least or 0.0), unit)
    units = f"{len(found.by_seed)} {found.units}"
    return f"at this spread {units} show a {what} of {shown} with {100 * POWER:.0f} % power{given}"
