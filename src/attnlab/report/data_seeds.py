"""Data seeds as a factor: runs on several data sets, drawn by `task.data_seed`, in one table.

Runs on one data set share its examples, and are alike in what runs on two data sets are not. So the mean of a cell is
over data sets, of the means over the seeds of each. Differences of rows are taken seed by seed on the same data, and
averaged in each data set: an interval or a test counts data sets, not runs.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from attnlab.report.report_record import ReportSeed
from attnlab.report.statistics import PairedDifference, mean, paired


def by_data_seed(seeds: Sequence[ReportSeed]) -> dict[int | None, dict[int | str, float]]:
    """The numbers of a cell by data seed, and by `ReportSeed.key`; one entry, None, where data seeds do not differ."""
    found: dict[int | None, dict[int | str, float]] = defaultdict(dict)
    for one in seeds:
        if one.value is not None:
            found[one.data_seed][one.key] = one.value
    return dict(found)


def mean_over_data(seeds: Sequence[ReportSeed]) -> float | None:
    """The mean over data sets of their means over seeds; None without a number."""
    means = [mean(list(values.values())) for values in by_data_seed(seeds).values()]
    return mean(means) if means else None


def paired_on_data(
    ours: Sequence[ReportSeed], against: Sequence[ReportSeed], beyond: float = 0.0
) -> PairedDifference | None:
    """`statistics.paired` of two cells, never across data sets.

    With common seeds on several data sets the units are data sets, each with the mean difference of its common seeds.
    """
    left, right = by_data_seed(ours), by_data_seed(against)
    common = {data: sorted(left[data].keys() & right[data].keys(), key=str) for data in left.keys() & right.keys()}
    shared = sorted((data for data, keys in common.items() if keys), key=lambda data: data or 0)
    if len(shared) <= 1:
        sides = [side[shared[0]] if shared else {} for side in (left, right)]
    else:
        sides = [
            {f"data {data}": mean([side[data][key] for key in common[data]]) for data in shared}
            for side in (left, right)
        ]
    # seeds are named by words where data seeds differ
    one, other = (cast(dict[int, float], side) for side in sides)
    found = paired(one, other, beyond)
    if found is None or len(shared) <= 1:
        return found
    return replace(found, method=f"{found.method.replace('seeds', 'data seeds')}, each the mean of its seeds")
