"""Statistics of failures and of times to success over a handful of runs, by scipy."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnlab.config.report_block import Success

if TYPE_CHECKING:
    from scipy.stats import CensoredData

SLACK = 1e-9
"""share of a threshold that rounding may take: a recorded 0.58 is 57.99999999999999 percent"""
DRAWS = 2_000
"""up to this many divisions of the runs into two rows all are taken, beyond it so many random ones"""


def reaches(success: Success, value: float) -> bool:
    """Whether a number in the unit of the column reaches the threshold of success."""
    if success.at_least is not None:
        return value >= success.at_least - SLACK * abs(success.at_least)
    assert success.at_most is not None, "checked by declaration_problems"
    return value <= success.at_most + SLACK * abs(success.at_most)


def clopper_pearson(count: int, n: int) -> tuple[float, float]:
    """Ends of the exact 95 % interval of a share (Clopper and Pearson 1934)."""
    # half a second
    from scipy.stats import binomtest

    ends = binomtest(count, n).proportion_ci(method="exact")
    return float(ends.low), float(ends.high)


@dataclass(frozen=True)
class Times:
    """Times to an event, of the runs that had it; `censored`: of the other runs, until when none of them had it."""

    events: Sequence[float]
    censored: Sequence[float]

    def __len__(self) -> int:
        return len(self.events) + len(self.censored)

    @property
    def end(self) -> float:
        """The last time at which anything is known."""
        return max([*self.events, *self.censored])

    @property
    def data(self) -> "CensoredData":
        """The times as scipy takes them."""
        from scipy.stats import CensoredData

        return CensoredData(uncensored=self.events, right=self.censored)


def kaplan_meier(times: Times) -> list[tuple[float, float]]:
    """Kaplan and Meier's estimate of the share of runs without the event, after every time at which it changes."""
    from scipy.stats import ecdf

    if not times.events:
        return []
    curve = ecdf(times.data).sf
    steps = zip(curve.quantiles.tolist(), curve.probabilities.tolist(), strict=True)
    return [(time, share) for time, share in steps if time in times.events]


def median(times: Times) -> float | None:
    """The first time at which at most half of the runs are without the event (`kaplan_meier`); None = never."""
    return next((time for time, share in kaplan_meier(times) if share <= 0.5), None)


def median_interval(times: Times) -> tuple[float | None, float | None]:
    """Ends of a 95 % interval of the median; None = no such end.

    It is exact, by the binomial distribution of the runs below the median; five runs have a lower end only, fewer none.
    None as well where a run without the event was followed for less time than some event took.
    """
    from scipy.stats import quantile_test

    if min(times.censored, default=math.inf) < max(times.events, default=-math.inf):
        return None, None
    known = [*times.events, *(math.inf for _ in times.censored)]
    ends = quantile_test(known, q=0, p=0.5).confidence_interval(0.95)
    if math.isnan(ends.low) and math.isnan(ends.high):
        ends = quantile_test(known, q=0, p=0.5, alternative="greater").confidence_interval(0.95)
    low, high = (float(end) if math.isfinite(end) else None for end in ends)
    return low, high


def log_rank_statistic(ours: Times, theirs: Times) -> float:
    """The log-rank statistic, a standard normal number in many equal rows; 0 where all runs have the event at once."""
    import numpy as np
    from scipy.stats import logrank

    with np.errstate(all="ignore"):
        return float(np.nan_to_num(logrank(ours.data, theirs.data).statistic))


def log_rank(ours: Times, theirs: Times) -> float:
    """Two-sided p of the log-rank test, from all divisions of the runs into two rows; 1 without any event.

    Rows are compared up to the time until which both are known, as exchangeable runs must have been followed equally
    long. The usual normal approximation is too sure of so few runs.
    """
    import numpy as np
    from scipy.stats import permutation_test

    end = min(ours.end, theirs.end)
    groups = (ours.events, ours.censored, theirs.events, theirs.censored)
    times = np.array([time for group in groups for time in group])
    had = np.repeat([True, False, True, False], list(map(len, groups))) & (times <= end)
    if not had.any():
        return 1.0

    def known(row: np.ndarray) -> Times:
        until = np.minimum(times[row], end)
        return Times(until[had[row]].tolist(), until[~had[row]].tolist())

    def size(*rows: np.ndarray) -> float:
        return abs(log_rank_statistic(*map(known, rows)))

    numbers = np.arange(len(times))
    divided = numbers[: len(ours)], numbers[len(ours) :]
    if min(map(len, divided)) == 1:
        # scipy draws from rows of two or more
        sizes = np.array([size(numbers[[run]], np.delete(numbers, run)) for run in numbers])
        return float(np.mean(sizes >= size(*divided) * (1 - 1e-9)))
    rng = np.random.default_rng(0)
    return float(permutation_test(divided, size, n_resamples=DRAWS, alternative="greater", rng=rng).pvalue)
