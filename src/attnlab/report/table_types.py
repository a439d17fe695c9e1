"""The parts of a report's table: what a run gives, columns, cells with their means, comparisons of rows."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnlab.config.report_schema import Report
from attnlab.config.suggest import hint, listed, nearest
from attnlab.learn.metric_units import OF_RUNS, SHARE, lower_is_better, unit_of
from attnlab.report.published_numbers import Published, Value
from attnlab.report.read_runs import FoundRun
from attnlab.report.report_json import Comparison
from attnlab.report.statistics import APART, bimodal, mean, paired, sd


class TableError(Exception):
    """A table that would be wrong or empty; one sentence says why."""


@dataclass(frozen=True)
class Seed:
    """What one run gives to a cell; `value` as it is shown, None where the run has none; `place` as in `FoundRun`."""

    seed: int
    value: float | None
    state: str
    reason: str
    place: str
    folder: Path


@dataclass(frozen=True)
class Column:
    """A column: a metric, of the runs whose keys have the values of `where`; or the mean of other columns, `of`."""

    name: str
    metric: str
    where: Mapping[str, Any] = field(default_factory=dict)
    of: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        return unit_of(self.metric).name


@dataclass(frozen=True)
class Cell:
    """Runs of one row and column; `chosen` names the value that was best where one was taken (`best_over`)."""

    row: str
    column: Column
    seeds: Sequence[Seed]
    published: Value | None = None
    chosen: str = ""

    @property
    def values(self) -> dict[int, float]:
        return {seed.seed: seed.value for seed in self.seeds if seed.value is not None}

    @property
    def mean(self) -> float | None:
        return mean(list(self.values.values())) if self.values else None

    @property
    def sd(self) -> float | None:
        return sd(list(self.values.values())) if self.values else None

    def extreme(self, best: bool) -> tuple[int, float] | None:
        """Seed and value of the best or the worst run."""
        sign = -1 if lower_is_better(self.column.metric) == best else 1
        return max(self.values.items(), key=lambda pair: sign * pair[1]) if self.values else None

    @property
    def scattered(self) -> bool:
        """Whether seeds are so far apart that a mean alone would mislead; of percentages and perplexities only."""
        values = list(self.values.values())
        apart = APART if self.column.unit == SHARE.name else abs(self.mean or 0) / 4
        return len(values) > 1 and self.column.metric not in OF_RUNS and max(values) - min(values) >= apart

    @property
    def bimodal(self) -> bool:
        """Whether they fall into two groups."""
        return self.scattered and bimodal(list(self.values.values()))

    @property
    def difference(self) -> float | None:
        """Ours less the published value."""
        known = self.published is not None and self.published.value is not None
        return self.mean - self.published.value if known and self.mean is not None else None

    @property
    def difference_in_sd(self) -> float | None:
        ratio = self.difference / self.sd if self.difference is not None and self.sd else None
        # seeds that differ by less than rounding are no measure of anything
        return ratio if ratio is not None and math.isfinite(ratio) else None


@dataclass(frozen=True)
class Table:
    """Cells of a report; `cells[row][column]` is missing where the experiment has no such run."""

    report: Report
    columns: Sequence[Column]
    cells: Mapping[str, Mapping[str, Cell]]
    runs: Sequence[FoundRun]
    published: Published | None = None

    def each(self) -> Iterator[Cell]:
        for row in self.cells.values():
            yield from row.values()

    def comparisons(self, against: str | None = None) -> list[Comparison]:
        """Every row less the first one that has a number, or the one named; none where no row has a number."""
        rows = list(self.cells)
        if against is not None and against not in rows:
            raise TableError(f"against={against}: no such row{hint(nearest(against, rows))}; rows: {listed(rows)}")
        numbered = [row for row in rows if any(cell.values for cell in self.cells[row].values())]
        if not numbered:
            return []
        base = against or numbered[0]
        found = []
        for row in (row for row in rows if row != base):
            for name, cell in self.cells[row].items():
                other = self.cells[base].get(name)
                result = paired(cell.values, other.values) if other else None
                if result is not None:
                    found.append(Comparison(name, row, base, *result))
        return found
