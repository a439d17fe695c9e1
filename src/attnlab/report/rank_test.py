"""Comparison of two rows by the ranks of their runs, with diverged runs last."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

MOST = 200
"""runs of both rows, up to which the p-value is exact; from there on by the normal approximation"""


@dataclass(frozen=True)
class RankTest:
    """Exact Mann-Whitney test of two rows of runs.

    A run that diverged has no number, and is worse than every number. So means have no difference where runs diverged,
    and a mean of the others would leave out the worst. Ranks take all runs. Rows are not paired: a pair in which both
    runs diverged says nothing, and by signs five pairs cannot differ at 5 %.

    ours, theirs: numbers of the runs; None = diverged.
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
        wins = sum((one > other) + 0.5 * (one == other) for one in ours for other in theirs)
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
        sign = -1 if self.lower else 1
        least = sign * self.worst
        last = float("-inf")
        ours = [last if value is None else sign * (value - end) for value in self.ours]
        return [value if value >= least else last for value in ours], [
            last if value is None else sign * value for value in self.theirs
        ]


def smallest_share(n: int, others: int, level: float) -> float | None:
    """The smallest share of pairs, in which a row of n runs is better than another one, that is significant.

    Args:
        level: of both sides together.

    Returns:
        None where even a row that is better in all pairs is not significantly better.
    """
    shares = _shares_of_sums([2 * rank for rank in range(1, n + others + 1)], n)
    tail, least = 0.0, None
    for total in range(len(shares) - 1, -1, -1):
        tail += shares[total]
        if 2 * tail > level:
            break
        least = total if shares[total] else least
    return None if least is None else (least / 2 - n * (n + 1) / 2) / (n * others)


def _rank_sum(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """One-sided p-values of higher and of lower ranks in the first row, equal values with their mean rank."""
    # a third of a second
    from scipy import stats

    if len(ours) + len(theirs) > MOST:
        better, worse = (
            float(stats.mannwhitneyu(ours, theirs, alternative=side, method="asymptotic").pvalue)
            for side in ("greater", "less")
        )
        return better, worse
    # mean ranks are multiples of a half
    ranks = [round(2 * rank) for rank in stats.rankdata([*ours, *theirs])]
    shares, found = _shares_of_sums(ranks, len(ours)), sum(ranks[: len(ours)])
    return float(shares[found:].sum()), float(shares[: found + 1].sum())


def _shares_of_sums(ranks: Sequence[int], n: int) -> "np.ndarray":
    """The share of the choices of n ranks that has each sum; all choices are equally probable if rows are alike."""
    import numpy as np

    choices = np.zeros((n + 1, sum(ranks) + 1))
    choices[0, 0] = 1
    for rank in ranks:
        choices[1:, rank:] += choices[:-1, :-rank]
    return choices[-1] / choices[-1].sum()
