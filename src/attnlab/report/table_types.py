"""The parts of a report's table: numbers of runs, columns, cells with their means, comparisons of rows."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from attnlab.config.check import ConfigError
from attnlab.config.message_text import hint, listed
from attnlab.config.nearest_word import nearest
from attnlab.config.report_block import Report
from attnlab.config.run_identity import task_and_split
from attnlab.config.user_error import UserError
from attnlab.learn.metric_units import OF_RUNS, lower_is_better, unit_of
from attnlab.report.analysis_record import Comparison
from attnlab.report.published_numbers import Published, Value
from attnlab.report.report_record import ReportSeed
from attnlab.report.runs.read_runs import FoundRun, begun_beside
from attnlab.report.statistics.data_seeds import mean_over_data, paired_on_data
from attnlab.report.statistics.differences import sd
from attnlab.report.statistics.length_breakdown import LengthPart, one_length

Drawn = list[tuple[Path, str]]
"""picture files and their captions"""


class TableError(UserError):
    """A table that would be wrong or empty; one sentence says why."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    where: values of keys; only runs that have them are in the column.
    of:    names of other columns; this one is their mean.
    """

    name: str
    metric: str
    where: Mapping[str, Any] = field(default_factory=dict)
    of: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        """The name of the unit."""
        return unit_of(self.metric).name

    @property
    def measured(self) -> str:
        """What the column shows: its metric, or the columns of its mean."""
        return f"mean of {listed(self.of)}" if self.of else self.metric


@dataclass(frozen=True)
class Cell:
    """Runs of one row and column.

    chosen:         the value of the keys in `best_over` that is shown.
    chosen_by:      the validation that chose it; empty if the shown numbers did.
    examples:       test examples of each run, where the metric is a share of them and their number is recorded.
    test_set_error: `report.statistics.test_set_error`, in points.
    by_length:      `report.statistics.length_breakdown`.
    shortcuts:      names and numbers of answers without understanding, the best one first (`report.shortcuts`).
    """

    row: str
    column: Column
    seeds: Sequence[ReportSeed]
    published: Value | None = None
    chosen: str = ""
    chosen_by: str = ""
    examples: int | None = None
    test_set_error: float | None = None
    by_length: Sequence[LengthPart] | None = None
    shortcuts: Sequence[tuple[str, float]] = ()

    def taken_by(self, validation: str) -> "Cell":
        """The cell as a choice by this validation."""
        return replace(self, chosen_by=validation)

    @property
    def one_length(self) -> LengthPart | None:
        """The length that carries the mean, if there is one."""
        return one_length(self.by_length or (), len(self.values))

    @property
    def data_sets(self) -> int:
        """The number of data seeds of its runs."""
        return len({seed.data_seed for seed in self.seeds})

    @property
    def values(self) -> dict[int, float]:
        """The numbers by seed; by seed and data seed, where these differ (`ReportSeed.key`)."""
        return {cast(int, seed.key): seed.value for seed in self.seeds if seed.value is not None}

    @property
    def mean(self) -> float | None:
        """Mean over seeds, and then over data seeds where these differ; None without a number."""
        return mean_over_data(self.seeds)

    @property
    def sd(self) -> float | None:
        """Standard deviation over seeds; None of fewer than two numbers."""
        return sd(list(self.values.values())) if self.values else None

    def extreme(self, best: bool) -> tuple[int, float] | None:
        """Seed and value of the best or the worst run."""
        sign = -1 if lower_is_better(self.column.metric) == best else 1
        return max(self.values.items(), key=lambda pair: sign * pair[1]) if self.values else None

    @property
    def published_number(self) -> float | None:
        """The published value; None where nothing or only words were published."""
        return self.published.value if self.published else None

    @property
    def difference(self) -> float | None:
        """Our mean minus the published value."""
        ours, published = self.mean, self.published_number
        return None if ours is None or published is None else ours - published

    @property
    def difference_in_sd(self) -> float | None:
        """The difference in standard deviations over our seeds."""
        ratio = self.difference / self.sd if self.difference is not None and self.sd else None
        # a standard deviation of rounding errors measures nothing
        return ratio if ratio is not None and math.isfinite(ratio) else None


@dataclass(frozen=True)
class Table:
    """Cells of a report; `cells[row]` lacks a column where the experiment has no such run."""

    report: Report
    columns: Sequence[Column]
    cells: Mapping[str, Mapping[str, Cell]]
    runs: Sequence[FoundRun]
    published: Published | None = None

    def each(self, column: Column | None = None) -> Iterator[Cell]:
        """Every cell, or every cell of one column."""
        return (cell for row in self.cells.values() for cell in row.values() if column in (None, cell.column))

    @cached_property
    def by_folder(self) -> dict[str, FoundRun]:
        """The runs by their folders, as the cells name them."""
        return {str(run.folder): run for run in self.runs}

    @cached_property
    def beside(self) -> list[FoundRun]:
        """The begun runs of the same settings that are not in the table."""
        return begun_beside(self.runs)

    def finished(self) -> list[FoundRun]:
        """The finished runs."""
        return [run for run in self.runs if run.state == "finished"]

    def require_row(self, given: str, row: str) -> None:
        """Raises a ConfigError that opens with `given` if there is no such row."""
        if row not in self.cells:
            rows = list(self.cells)
            raise ConfigError([f"{given}: no such row{hint(nearest(row, rows))}; rows: {listed(rows)}"], "report.py")

    @property
    def highlight(self) -> str | None:
        """The row that is strongest in figures: named by the report, else of its first hypothesis; None without both.

        A report that is narrowed to other rows has none.
        """
        named = self.report.highlight or next((one.row for one in self.report.hypotheses), None)
        return named if named in self.cells else None

    def comparisons(self, against: str | None = None) -> list[Comparison]:
        """Every row minus a base row: the one named, else the first row of its task with a number in the column.

        P-values and intervals are corrected over all of them. Cost and size of runs (`metric_units.OF_RUNS`) are not
        tested.
        """
        if against is not None:
            self.require_row(f"against={against}", against)
        named = self.cells[against] if against is not None else {}
        first: dict[tuple[str, str], Cell] = {}
        for cell in self.each():
            if cell.values:
                first.setdefault((cell.column.name, self._task(cell)), cell)
        bases = (
            (cell, named.get(cell.column.name) or first.get((cell.column.name, self._task(cell))))
            for cell in self.each()
        )
        pairs = [(cell, base) for cell, base in bases if base is not None and base.row != cell.row]
        alone = [paired_on_data(cell.seeds, base.seeds, cell.column.metric) for cell, base in pairs]
        tests = sum(
            found is not None and found.is_tested and cell.column.metric not in OF_RUNS
            for found, (cell, _) in zip(alone, pairs, strict=True)
        )
        return [found for cell, base in pairs if (found := _comparison(cell, base, tests)) is not None]

    def _task(self, cell: Cell) -> str:
        """Task and split of the runs of a cell."""
        return task_and_split(self.by_folder[str(cell.seeds[0].folder)].config)


def _comparison(cell: Cell, base: Cell, tests: int) -> Comparison | None:
    """The difference of two rows in a column; None without common seeds.

    Args:
        tests: the number of tests of the table.
    """
    is_cost = cell.column.metric in OF_RUNS
    found = paired_on_data(cell.seeds, base.seeds, cell.column.metric, 1 if is_cost else tests)
    if found is None:
        return None
    p, corrected = (None, None) if is_cost else (found.p, found.corrected)
    return Comparison(
        column=cell.column.name,
        row=cell.row,
        against=base.row,
        difference=found.mean,
        low=found.low,
        high=found.high,
        method=found.method,
        p=p,
        corrected=corrected,
        seeds=[*found.by_seed.items()],
    )
