"""Tables of accuracy by length, for the terminal, markdown and the page, and the warnings that one length carries a
mean."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from attnlab.config.message_text import listed
from attnlab.learn.metric_units import SHARE, as_float, number
from attnlab.report.report_record import ReportCell, ReportFile
from attnlab.report.runs.read_runs import FoundRun
from attnlab.report.statistics.length_breakdown import LengthPart, length_parts, unknown_lengths
from attnlab.report.statistics.test_set_error import measured_runs
from attnlab.report.table_types import Cell, Table

HEADING = "Accuracy by length"
ABOVE = "In percent; the length is of the output, or of the input where the answer is a class"
SHARES = "share of the test set"
FLAT = 1.0
"""points: a column is not broken down where no length is further from the mean of its row"""


@dataclass
class LengthTable:
    """The breakdown of one column, for the rows with one distribution of lengths.

    parts: the lengths, of any of the rows.
    rows:  name, mean over all lengths, and mean at each length.
    """

    column: str
    parts: Sequence[LengthPart]
    rows: list[tuple[str, float, list[float]]] = field(default_factory=list)

    @property
    def flat(self) -> bool:
        """Whether accuracy is the same at all lengths, in every row."""
        return all(abs(value - mean) <= FLAT for _, mean, values in self.rows for value in values)


def with_lengths(cells: Mapping[str, Cell], runs: Mapping[str, FoundRun]) -> dict[str, Cell]:
    """The cells of one row, by column, with their breakdown by length.

    Args:
        runs: of the table, by their folders (`Table.by_folder`).
    """
    found = {}
    for name, cell in cells.items():
        parts = None if cell.column.of else length_parts(cell.column.metric, measured_runs(cell, runs))
        found[name] = replace(cell, by_length=parts)
    return found


def length_tables(cells: Iterable[tuple[str, str, Cell | ReportCell]]) -> list[LengthTable]:
    """The breakdowns of a report, column by column.

    Args:
        cells: row, column and cell.
    """
    found: dict[tuple, LengthTable] = {}
    for row, column, cell in cells:
        if cell.by_length and cell.mean is not None:
            places = [(part.first, part.last, round(part.share, 6)) for part in cell.by_length]
            table = found.setdefault((column, *places), LengthTable(column, cell.by_length))
            table.rows.append((row, as_float(cell.mean), [as_float(part.mean) for part in cell.by_length]))
    return sorted(found.values(), key=lambda table: [key[0] for key in found].index(table.column))


def of_table(table: Table) -> list[LengthTable]:
    """The breakdowns of a table."""
    return length_tables((cell.row, cell.column.name, cell) for cell in table.each())


def of_report(report: ReportFile) -> list[LengthTable]:
    """The breakdowns of a report.json."""
    return length_tables((row.name, cell.column, cell) for row, cell in report.each())


def flat_columns(tables: Sequence[LengthTable]) -> str:
    """A sentence on the columns that are not broken down; empty if all are."""
    names = listed(dict.fromkeys(one.column for one in tables if one.flat))
    return f"{names}: no length is more than {FLAT:.0f} point from the mean" if any(one.flat for one in tables) else ""


def lines_of(table: LengthTable) -> list[list[str]]:
    """Head, share of each length, then every row, as text."""
    shares = [100.0, *(part.share for part in table.parts)]
    rows = [(SHARES, shares), *((row, [mean, *means]) for row, mean, means in table.rows)]
    head = [table.column, "all", *(part.name for part in table.parts)]
    return [head, *([name, *(number(value, SHARE.name) for value in values)] for name, values in rows)]


def markdown_lengths(table: Table, grid: Callable[..., str]) -> list[str]:
    """The breakdowns of a table as parts of a markdown text; empty if there are none.

    Args:
        grid: makes a table of head and lines.
    """
    tables = of_table(table)
    sentences = [f"{one}." for one in (ABOVE, flat_columns(tables)) if one]
    grids = [grid(*lines_of(one)) for one in tables if not one.flat]
    return [f"## {HEADING}", *sentences, *grids] if tables else []


def beside(part: LengthPart | None) -> str:
    """`, 97.1 % of it from length 27`, for the text of a mean that one length carries; else empty."""
    return f", {number(part.right, SHARE.name)} % of it from {part.named}" if part and part.right is not None else ""


def warnings(table: Table) -> list[str]:
    """Sentences on means that one length carries, and on accuracies without a breakdown, if there are any."""
    carried = [
        f"{cell.row}, {cell.column.name}: {number(part.right, SHARE.name)} % of the right answers have {part.named}, "
        f"as have {number(part.share, SHARE.name)} % of the test set"
        for cell in table.each()
        if (part := cell.one_length) and part.right is not None
    ]
    lacking = [
        f"{cell.row} ({cell.column.name})"
        for cell in table.each()
        if not cell.column.of and cell.by_length is None
        if unknown_lengths(cell.column.metric, measured_runs(cell, table.by_folder))
    ]
    found = [f"one length carries the mean: {'; '.join(carried)}"] if carried else []
    why = "result.json has no numbers of test examples that fit"
    return found + ([f"no breakdown by length, because {why}: {listed(lacking, 8)}"] if lacking else [])
