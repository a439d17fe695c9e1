"""The table of a report while it is made: its cells from runs, and comparisons of rows."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from attnlab.config.message_text import hint, listed
from attnlab.config.nearest_word import nearest
from attnlab.config.problem import ConfigError, Problem, UserError
from attnlab.config.report_block import Report
from attnlab.config.run_identity import task_and_split
from attnlab.learn.metric_units import OF_RUNS, lower_is_better, unit_of
from attnlab.report.analysis_record import Comparison, DataSeedSpread, HypothesisAnswer, ReportSeed, RowRuns
from attnlab.report.published_numbers import Published, Value
from attnlab.report.report_record import Cell, Column
from attnlab.report.runs.read_runs import NOT_BEGUN, ReportRun, begun_beside, grouped, runs_by_row
from attnlab.report.statistics.data_seeds import by_data_seed, paired_on_data, spread_on_data
from attnlab.report.statistics.differences import mean, sd


class TableError(UserError):
    """A table that would be wrong or empty; one sentence says why."""


def cell_of(
    row: str, column: Column, seeds: Sequence[ReportSeed], published: Value | None = None, chosen: str = ""
) -> Cell:
    """The cell of some runs: mean over seeds, and then over data seeds where these differ, and its spread."""
    pairs = [(seed.key, seed.value) for seed in seeds if seed.value is not None]
    means = [mean(list(values.values())) for values in by_data_seed(seeds).values()]
    center, spread = mean(means) if means else None, sd([value for _, value in pairs])
    known = published.value if published else None
    difference = None if center is None or known is None else center - known
    ratio = difference / spread if difference is not None and spread else None
    # neither of two norms is better
    ranked = pairs if unit_of(column.metric).has_better else []
    ends = [choose(ranked, key=lambda pair: pair[1], default=None) for choose in (max, min)]
    best, worst = ends[::-1] if lower_is_better(column.metric) else ends
    return Cell(
        row=row,
        column=column,
        mean=center,
        sd=spread,
        n=len(pairs),
        best=best,
        worst=worst,
        chosen=chosen,
        chosen_by="",
        published=published,
        difference=difference,
        # a standard deviation of rounding errors measures nothing
        difference_in_sd=ratio if ratio is not None and math.isfinite(ratio) else None,
        seeds=list(seeds),
    )


@dataclass(frozen=True)
class Table:
    """Cells of a report; `cells[row]` lacks a column where the experiment has no such run."""

    report: Report
    columns: Sequence[Column]
    cells: Mapping[str, Mapping[str, Cell]]
    runs: Sequence[ReportRun]
    published: Published | None = None
    answers: Sequence[HypothesisAnswer] = ()

    def each(self, column: Column | None = None) -> Iterator[Cell]:
        """Every cell, or every cell of one column."""
        return (cell for row in self.cells.values() for cell in row.values() if column in (None, cell.column))

    @cached_property
    def by_folder(self) -> dict[str, ReportRun]:
        """The runs by their folders, as the cells name them."""
        return {str(run.folder): run for run in self.runs}

    def runs_behind(self, row: str, column: Column) -> list[ReportRun]:
        """The runs of a cell; of a mean of columns, the runs of all of them."""
        cells = [cell for name in column.of or [column.name] if (cell := self.cells.get(row, {}).get(name))]
        folders = dict.fromkeys(str(seed.folder) for cell in cells for seed in cell.seeds)
        return [self.by_folder[folder] for folder in folders]

    @cached_property
    def other_runs(self) -> list[ReportRun]:
        """The begun runs of the same settings that are not in the table."""
        return begun_beside(self.runs)

    def published_difference(self, row: str, other: str, column: str) -> float | None:
        """The difference of the published numbers of two rows; None where one has none."""
        cells = [self.cells.get(name, {}).get(column) for name in (row, other)]
        first, second = (cell.published_number if cell else None for cell in cells)
        return None if first is None or second is None else first - second

    def by_condition(self, subset: str | None = None) -> dict[str, "Table"]:
        """Tables of columns with the same runs in a row, by the names of their columns; one table has no name.

        Columns differ in their runs by a condition (`where`), and by the value of `best_over` that each of them shows.

        Args:
            subset: of the test data, such as test/ood; other columns are left out, if a column is of it.
        """
        columns = [column for column in self.columns if not column.of]
        columns = [column for column in columns if column.metric.rpartition("/")[0] == subset] or columns
        chosen = self.report.best_over
        groups = grouped((column, (repr(column.where), column.name if chosen else "")) for column in columns).values()
        return {", ".join(column.name for column in each) if len(groups) > 1 else "": self._of(each) for each in groups}

    def _of(self, columns: Sequence[Column]) -> "Table":
        """The table of some columns and their runs."""
        kept = grouped((cell, cell.row) for column in columns for cell in self.each(column))
        cells = {row: {cell.column.name: cell for cell in kept[row]} for row in self.cells if row in kept}
        folders = {seed.folder for of_row in kept.values() for cell in of_row for seed in cell.seeds}
        runs = [run for run in self.runs if str(run.folder) in folders]
        return replace(self, columns=columns, cells=cells, runs=runs)

    def data_seeds(self) -> list[DataSeedSpread]:
        """Every cell with a number by data seed; empty where no cell has several (data seeds may be rows)."""
        if all(len(by_data_seed(cell.seeds)) <= 1 for cell in self.each()):
            return []
        spreads = (spread_on_data(cell.row, cell.column.name, cell.seeds) for cell in self.each() if not cell.column.of)
        return [spread for spread in spreads if spread is not None]

    def finished(self) -> list[ReportRun]:
        return [run for run in self.runs if run.state == "finished"]

    def row_runs(self) -> list[RowRuns]:
        """The counts of every row over all columns; used are runs with a number in a cell."""
        used = {str(seed.folder) for cell in self.each() for seed in cell.seeds if seed.value is not None}
        return [
            RowRuns(
                row=row,
                started=sum(run.state not in NOT_BEGUN for run in runs),
                diverged=sum(run.diverged for run in runs),
                finished=sum(run.state == "finished" for run in runs),
                used=sum(str(run.folder) in used for run in runs),
            )
            for row, runs in runs_by_row(self.report, self.runs).items()
        ]

    def require_row(self, word: str, row: str) -> None:
        """Raises a ConfigError that opens with a word of the command if there is no such row."""
        if row not in self.cells:
            rows = list(self.cells)
            text = f": no such row{hint(nearest(row, rows))}; rows: {listed(rows, separator='; ')}"
            raise ConfigError([Problem(word, text)], "report.py")

    @property
    def highlight(self) -> str | None:
        """The row that is strongest in figures, if the table has it: of the report, else of its first hypothesis."""
        named = self.report.highlight or next((claim.row for claim in self.report.hypotheses), None)
        return named if named in self.cells else None

    def comparisons(self, against: str | None = None) -> list[Comparison]:
        """Every row minus a base row: the one named, else the first row of its task with a number in the column.

        P-values and intervals are corrected over all of them. Cost and size of runs (`metric_units.OF_RUNS`) are not
        tested.
        """
        if against is not None:
            self.require_row(f"against={against}", against)
        named = self.cells[against] if against is not None else {}
        places = [
            (cell, (cell.column.name, task_and_split(self.by_folder[str(cell.seeds[0].folder)].config)))
            for cell in self.each()
        ]
        first: dict[tuple[str, str], Cell] = {}
        for cell, place in places:
            if cell.values:
                first.setdefault(place, cell)
        bases = ((cell, named.get(cell.column.name) or first.get(place)) for cell, place in places)
        pairs = [(cell, base) for cell, base in bases if base is not None and base.row != cell.row]
        tests = 0
        for cell, base in pairs:
            pair = paired_on_data(cell.seeds, base.seeds, cell.column.metric)
            tests += pair is not None and pair.is_tested and cell.column.metric not in OF_RUNS
        return [comparison for pair in pairs if (comparison := _comparison(*pair, tests)) is not None]


def _comparison(cell: Cell, base: Cell, tests: int) -> Comparison | None:
    """The difference of two rows in a column, of a table with so many tests; None without common seeds."""
    is_tested = cell.column.metric not in OF_RUNS
    pair = paired_on_data(cell.seeds, base.seeds, cell.column.metric, tests if is_tested else 1)
    if pair is None:
        return None
    return Comparison(
        column=cell.column.name,
        row=cell.row,
        against=base.row,
        difference=pair.mean,
        low=pair.low,
        high=pair.high,
        method=pair.method,
        p=pair.p if is_tested else None,
        corrected=pair.corrected if is_tested else None,
        seeds=[*pair.by_seed.items()],
        units=pair.units,
    )
