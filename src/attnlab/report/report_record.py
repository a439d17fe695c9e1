"""Content of report.json as dataclasses, which `report.py` writes and the page and wandb read.

A field with a default may be missing in files of older versions and other tools.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from attnlab.config.message_text import listed, show
from attnlab.config.plain_json import json_text, restored
from attnlab.config.validation.type_check import Integral, Real, Record, build, record_problem
from attnlab.data.files.regular_file import LARGEST, read_regular
from attnlab.report.analysis_record import (
    Comparison,
    DataSeedSpread,
    HypothesisAnswer,
    LengthPart,
    ReportSeed,
    SpentRuns,
    SuccessReport,
)
from attnlab.report.published_numbers import LIVE, Published, Value

T = TypeVar("T")


class ReportError(Exception):
    """A report.json that cannot be read; the message says why."""


@dataclass(frozen=True)
class Column(Record):
    """A column: its name, its metric and the name of its unit.

    where: only runs with these values of keys are in it; of: names of columns whose mean it is. Neither is in the file.
    """

    name: str
    metric: str = ""
    unit: str = ""
    where: dict[str, Any] = field(default_factory=dict, metadata=LIVE)
    of: list[str] = field(default_factory=list, metadata=LIVE)

    @property
    def measured(self) -> str:
        """What the column shows: its metric and the condition on its runs, or the columns of its mean."""
        if self.of:
            return f"mean of {listed(self.of)}"
        conditions = [f"{key}={show(value)}" for key, value in self.where.items()]
        return f"{self.metric} ({listed(conditions)})" if conditions else self.metric


if TYPE_CHECKING:
    ColumnByName: TypeAlias = Column
else:
    ColumnByName = str  # in the file


@dataclass(frozen=True, kw_only=True)
class Cell(Record):
    """Runs of one row and column, computed from run folders (`report.table_types.cell_of`) or read from a file.

    best, worst: seed and value.
    chosen: the one shown of several values of a key; chosen_by: the validation that chose it, else the shown numbers.
    examples: test examples of each run, behind a share of right answers; None if unknown.
    test_set_error: binomial standard error of the mean as the number of one run, in points.
    by_length: the mean at each length; one_length: the length that carries it.
    shortcuts: names and numbers of answers without understanding, the best one first.
    """

    column: ColumnByName
    mean: Real | None
    sd: Real | None = None
    n: Integral
    best: tuple[Integral | str, Real] | None = None
    worst: tuple[Integral | str, Real] | None = None
    chosen: str | None = None
    examples: Integral | None = None
    test_set_error: Real | None = None
    by_length: list[LengthPart] | None = None
    one_length: LengthPart | None = None
    shortcuts: list[tuple[str, Real]] = field(default_factory=list)
    chosen_by: str | None = None
    published: Value | None = None
    difference: Real | None = None
    difference_in_sd: Real | None = None
    seeds: list[ReportSeed]
    row: str = field(default="", metadata=LIVE)

    @property
    def data_sets(self) -> int:
        """The number of data seeds of its runs."""
        return len({seed.data_seed for seed in self.seeds})

    @property
    def states(self) -> str:
        """The states of its runs in words, each once."""
        return ", ".join(dict.fromkeys(seed.named_state for seed in self.seeds))

    @property
    def values(self) -> dict[int, float]:
        """The numbers by seed; by seed and data seed, where these differ (`ReportSeed.key`)."""
        return {cast(int, seed.key): seed.value for seed in self.seeds if seed.value is not None}

    def measured(self, runs: Mapping[str, T]) -> list[T]:
        """Of runs by their folders, the ones that have a number."""
        return [runs[str(seed.folder)] for seed in self.seeds if seed.value is not None]

    @property
    def published_number(self) -> float | None:
        """The published value; None where nothing or only words were published."""
        return self.published.value if self.published else None


@dataclass(frozen=True, kw_only=True)
class ReportRow(Record):
    """A row and its cells."""

    name: str
    cells: list[Cell]

    def cell(self, column: str) -> Cell | None:
        """The cell of a column; None if the row has none."""
        return next((cell for cell in self.cells if cell.column.name == column), None)


@dataclass(frozen=True, kw_only=True)
class Origin(Record):
    """Cost, commits, hashes of the code by package, hardware and versions of the runs behind a table."""

    runs: Integral | None = None
    seconds: Real | None = None
    commits: list[str] = field(default_factory=list)
    code: dict[str, Any] = field(default_factory=dict)
    hardware: list[str] = field(default_factory=list)
    versions: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ReportFigure(Record):
    """A picture in the folder of report.json."""

    file: str
    caption: str | None = None


@dataclass(frozen=True, kw_only=True)
class ReportFile(Record):
    """The content of the file; `head`, above the names of rows, is not in it.

    success: None = the experiment declares no threshold; hypotheses, budget: None = the file is older than they are.
    highlight: the row of interest.
    """

    title: str
    protocol: str | None = None
    published: Published | None = None
    columns: list[Column]
    rows: list[ReportRow]
    comparisons: list[Comparison] = field(default_factory=list)
    success: SuccessReport | None = None
    hypotheses: list[HypothesisAnswer] | None = None
    highlight: str | None = None
    budget: list[SpentRuns] | None = None
    data_seeds: list[DataSeedSpread] = field(default_factory=list)
    experiment: str
    train_command: str | None = None
    report_command: str | None = None
    made: str | None = None
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    origin: Origin | None = None
    figures: list[ReportFigure] = field(default_factory=list)
    head: str = field(default="", metadata=LIVE)

    @property
    def of_folders(self) -> bool:
        """Whether the runs were named by their folders (`runs=...`), so that no command trains them."""
        return self.train_command == ""

    @property
    def units(self) -> dict[str, str]:
        """The unit of each column by its name; empty if unknown."""
        return {column.name: column.unit for column in self.columns}

    def each(self) -> Iterator[Cell]:
        """Every cell, row by row."""
        return (cell for row in self.rows for cell in row.cells)


def read_report(file: Path) -> ReportFile:
    """Reads and checks a report.json.

    Raises:
        ReportError: it is missing, cut short, or no report.
    """
    try:
        content = restored(json.loads(read_regular(file, LARGEST)))
        # a lone surrogate, such as \\ud800, cannot be encoded
        json.dumps(content, ensure_ascii=False).encode()
    except OSError as error:
        raise ReportError(str(error.strerror)) from None
    except (ValueError, RecursionError):
        raise ReportError("cut short or no JSON") from None
    if problem := record_problem(content, ReportFile):
        raise ReportError(problem)
    report = build(ReportFile, content)
    columns: dict[Any, Column] = {column.name: column for column in report.columns}
    rows = []
    for row in report.rows:
        if unknown := next((cell.column for cell in row.cells if cell.column not in columns), None):
            raise ReportError(f"row {row.name} has a cell of the unknown column {unknown}")
        cells = [replace(cell, row=row.name, column=columns[cell.column]) for cell in row.cells]
        rows.append(replace(row, cells=cells))
    return replace(report, rows=rows)


def report_text(report: ReportFile) -> str:

    def content(record: Any) -> dict[str, Any]:
        # `asdict` would copy all values in it
        values = {part.name: getattr(record, part.name) for part in fields(record) if part.metadata != LIVE}
        return values | {"column": record.column.name} if isinstance(record, Cell) else values

    return json_text(report, default=content, indent=1) + "\n"
