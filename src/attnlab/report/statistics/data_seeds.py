"""Data seeds as a factor: runs on one data set are alike, so where `task.data_seed` draws several, means, intervals and
tests count data sets, each with the mean of its seeds.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from attnlab.config.report_block import FEWEST
from attnlab.learn.metric_units import unit_of
from attnlab.report.analysis_record import DATA_SEEDS, DataSeedMean, DataSeedSpread, ReportSeed
from attnlab.report.statistics.differences import PairedDifference, RankTest, difference, mean, paired, sd


def by_data_seed(seeds: Sequence[ReportSeed]) -> dict[int | None, dict[int | str, float]]:
    """The numbers of a cell by data seed, and by `ReportSeed.key`; one entry, None, where data seeds do not differ."""
    groups: dict[int | None, dict[int | str, float]] = defaultdict(dict)
    for seed in seeds:
        if seed.value is not None:
            groups[seed.data_seed][seed.key] = seed.value
    return dict(groups)


def spread_on_data(row: str, column: str, seeds: Sequence[ReportSeed]) -> DataSeedSpread | None:
    """The means of a cell by data seed, and the spreads between seeds and between data sets; None without a number."""
    sets = {data: list(values.values()) for data, values in by_data_seed(seeds).items() if data is not None}
    if not sets:
        return None
    means = [DataSeedMean(data_seed=data, mean=mean(values), n=len(values)) for data, values in sets.items()]
    # pooled over data sets by their degrees of freedom
    free = sum(len(values) - 1 for values in sets.values())
    squares = [(value - mean(values)) ** 2 for values in sets.values() for value in values]
    within = math.sqrt(math.fsum(squares) / free) if free else None
    # the variance of a mean over n seeds is that of one seed divided by n
    expected = None if within is None else within * math.sqrt(mean([1 / each.n for each in means]))
    between = sd([each.mean for each in means])
    return DataSeedSpread(row=row, column=column, means=means, within=within, between=between, expected=expected)


def paired_on_data(
    ours: Sequence[ReportSeed], against: Sequence[ReportSeed], metric: str, tests: int = 1
) -> PairedDifference | None:
    """`statistics.paired` of two cells, never across data sets; by ranks where a run of either diverged.

    With common seeds on several data sets the units are data sets, each with the mean difference of its common seeds.
    """
    if any(seed.diverged for seed in (*ours, *against)):
        return _by_ranks(ours, against, metric, tests)
    sides = by_data_seed(ours), by_data_seed(against)
    common = {
        data: sorted(sides[0][data].keys() & sides[1][data].keys(), key=str) for data in sides[0] if data in sides[1]
    }
    shared = sorted((data for data, keys in common.items() if keys), key=lambda data: data or 0)
    # seeds are named by words where data seeds differ
    if len(shared) <= 1:
        left, right = (cast(dict[int, float], side[shared[0]] if shared else {}) for side in sides)
        return paired(left, right, tests)
    means = [{f"data {data}": mean([side[data][key] for key in common[data]]) for data in shared} for side in sides]
    left, right = (cast(dict[int, float], side) for side in means)
    pair = paired(left, right, tests, DATA_SEEDS)
    return pair and replace(pair, method=f"{pair.method}, each the mean of its seeds")


def _by_ranks(
    ours: Sequence[ReportSeed], against: Sequence[ReportSeed], metric: str, tests: int
) -> PairedDifference | None:
    """The comparison of all runs by their ranks; without a p-value on several data sets, or with fewer than five runs;
    None where all runs of both rows diverged, or a row has no run."""
    rows = [[seed for seed in row if seed.diverged or seed.value is not None] for row in (ours, against)]
    if not all(rows) or all(seed.diverged for row in rows for seed in row):
        return None
    by_key = [{seed.key: seed.value for seed in row if seed.value is not None} for row in rows]
    by_seed = {key: difference(by_key[0][key], by_key[1][key]) for key in by_key[0] if key in by_key[1]}
    unit = unit_of(metric)
    values = [[seed.value for seed in row] for row in rows]
    ranks = RankTest(values[0], values[1], unit.lower_is_better, unit.worst)
    diverged = " and ".join(f"{lost} of {len(row)}" for lost, row in zip(ranks.diverged, rows, strict=True))
    method = f"{diverged} diverged, so that runs are compared by ranks, with these last"
    p = None
    if not unit.has_better:
        method += f"; no test, as neither direction is better in {metric}"
    elif len({seed.data_seed for row in rows for seed in row}) > 1:
        method += "; no test, as ranks do not compare runs on several data sets"
    elif min(map(len, rows)) >= FEWEST:
        p, method = ranks.p, f"{method} (exact Mann-Whitney test)"
    if unit.has_better:
        method = f"better in {100 * ranks.ahead:.0f} % of the pairs of runs; {method}"
    return PairedDifference(cast(dict[int, float], by_seed), None, None, None, p, method, ranks, tests)
