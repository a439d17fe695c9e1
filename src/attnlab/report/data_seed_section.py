"""Means of cells by data seed, and spreads between seeds and between data sets."""

import math
from collections.abc import Sequence

from attnlab.report.analysis_record import DataSeedMean, DataSeedSpread
from attnlab.report.report_record import Cell
from attnlab.report.statistics.data_seeds import by_data_seed
from attnlab.report.statistics.differences import mean, sd
from attnlab.report.table_types import Table


def spreads(table: Table) -> list[DataSeedSpread]:
    """Every cell with a number by data seed; empty where no cell has several (data seeds may be rows)."""
    if all(len(by_data_seed(cell.seeds)) <= 1 for cell in table.each()):
        return []
    return [found for cell in table.each() if not cell.column.of and (found := _spread(cell)) is not None]


def _spread(cell: Cell) -> DataSeedSpread | None:
    sets = {data: list(values.values()) for data, values in by_data_seed(cell.seeds).items() if data is not None}
    if not sets:
        return None
    means = [DataSeedMean(data_seed=data, mean=mean(values), n=len(values)) for data, values in sets.items()]
    within = _within(list(sets.values()))
    # the variance of a mean over n seeds is that of one seed divided by n
    expected = None if within is None else within * math.sqrt(mean([1 / one.n for one in means]))
    return DataSeedSpread(
        row=cell.row,
        column=cell.column.name,
        means=means,
        within=within,
        between=sd([one.mean for one in means]),
        expected=expected,
    )


def _within(sets: Sequence[Sequence[float]]) -> float | None:
    """The standard deviation between seeds on one data set, pooled over data sets by their degrees of freedom."""
    free = sum(len(values) - 1 for values in sets)
    squares = [(value - mean(values)) ** 2 for values in sets for value in values]
    return math.sqrt(math.fsum(squares) / free) if free else None
