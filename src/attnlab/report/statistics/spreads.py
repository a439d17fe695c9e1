"""Standard deviations of two rows over seeds, and their test."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spreads:
    """Standard deviations of two rows in the unit of their numbers, and the p-value of Brown and Forsythe's test.

    distances: mean distances from the median, which the test compares.
    p: two-sided; None where the distances are equal in each row, so that nothing varies that a test could use.
    """

    sds: tuple[float, float]
    distances: tuple[float, float]
    p: float | None

    @property
    def ahead(self) -> float:
        """How much less the first row varies; 0 where standard deviations and distances disagree, as a single seed far
        from all others can make them."""
        by_sd, by_distance = self.sds[1] - self.sds[0], self.distances[1] - self.distances[0]
        return by_sd if by_sd * by_distance > 0 else 0.0


def spreads_of(ours: Sequence[float], theirs: Sequence[float]) -> Spreads:
    """The spreads of two rows of two numbers or more, with Brown and Forsythe's test (1974): Levene's by medians."""
    import numpy as np
    from scipy.stats import levene

    distances = [np.abs(np.asarray(row) - np.median(row)) for row in (ours, theirs)]
    with np.errstate(all="ignore"):
        p = float(levene(ours, theirs, center="median").pvalue) if any(map(np.ptp, distances)) else None
    first, second = map(statistics.stdev, (ours, theirs))
    return Spreads((first, second), (float(distances[0].mean()), float(distances[1].mean())), p)
