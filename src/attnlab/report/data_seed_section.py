"""The section "Data seeds" of a report: means by data seed, and spreads between seeds and between data sets."""

import math
from collections.abc import Sequence

from attnlab.config.message_text import counted
from attnlab.learn.metric_units import number
from attnlab.report.analysis_record import DataSeedMean, DataSeedSpread
from attnlab.report.report_record import Cell, ReportFile
from attnlab.report.statistics.data_seeds import by_data_seed
from attnlab.report.statistics.differences import mean, sd
from attnlab.report.table_types import Table

READING = (
    "a mean is over data sets, of the means over the seeds of each; ± is over all runs; differences "
    "are paired by data seed and seed, and averaged in each data set, so that intervals and tests count data sets"
)


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


def sentences(report: ReportFile) -> list[str]:
    """Sentences on how to read means over several data sets, and one for every cell; none with one data set."""
    lines = [_sentence(spread, report.units[spread.column]) for spread in report.data_seeds]
    return [READING, *lines] if lines else []


def _sentence(one: DataSeedSpread, unit: str) -> str:
    """A cell by data seed: `linear, ood: 43.7 (data seed 1, 5 seeds), ...; sd between seeds 1.2, ...`."""
    means = [f"{number(each.mean, unit)} (data seed {each.data_seed}, {counted(each.n, 'seed')})" for each in one.means]
    parts = [f"{one.row}, {one.column}: {', '.join(means)}"]
    if one.within is not None:
        parts.append(f"sd between seeds on one data set {number(one.within, unit)}")
    if one.between is not None:
        alone = "" if one.expected is None else f" ({number(one.expected, unit)} expected from seeds alone)"
        parts.append(f"sd between data sets {number(one.between, unit)}{alone}")
    return "; ".join(parts)
