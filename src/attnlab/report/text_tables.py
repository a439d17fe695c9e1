"""Tables of a report as text: at a glance, cell by cell; terminal, markdown and the page print the same ones."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from attnlab.learn.metric_units import SHARE, label, number
from attnlab.report.failures.failure_record import RowSuccess
from attnlab.report.report_record import Cell, ReportFile

NONE = "-"
FAILED = "failed [95 %]"
"""head of the column of failures in a table of means"""


@dataclass(frozen=True)
class TextTable:
    """A table of text.

    words: number of columns of words, from the left; the others hold numbers.
    """

    title: str
    heads: list[str]
    rows: list[list[str]]
    words: int = 1


def mean_and_sd(cell: Cell) -> str:
    """`46.1 ± 2.3 (5)`; `46.1 (5)` if all seeds have the same number, `(3 of 5)` if some have none; with the length
    that carries the mean."""
    if cell.mean is None:
        return ", ".join(dict.fromkeys(seed.named_state for seed in cell.seeds)) or "missing"
    unit, total = cell.column.unit, len(cell.seeds)
    text = number(cell.mean, unit) + (f" ± {number(cell.sd, unit, like=cell.mean)}" if cell.sd else "")
    data = f", {cell.data_sets} data seeds" if cell.data_sets > 1 else ""
    part = cell.one_length
    length = f", {number(part.right, SHARE.name)} % of it from {part.named}" if part and part.right is not None else ""
    return f"{text} ({cell.n if cell.n == total else f'{cell.n} of {total}'}{data}){length}"


def each_seed(cell: Cell) -> str:
    """The number of every seed, in the order of the seeds: `44.1, 46.2, 48.0`."""
    return ", ".join(number(value, cell.column.unit) for value in cell.values.values()) or NONE


def _extreme(cell: Cell, extreme: tuple[int | str, float] | None) -> str:
    """The best or worst number of a cell: `49.5 (seed 3)`."""
    return f"{number(extreme[1], cell.column.unit)} (seed {extreme[0]})" if extreme else NONE


def _test_set_error(cell: Cell) -> str:
    """The error that the size of the test set leaves, with the digits of the mean: `0.8`."""
    error = cell.test_set_error
    return NONE if error is None else number(error, cell.column.unit, like=cell.mean)


def published(cell: Cell) -> str:
    """The published value with its spread: `46.9 ± 1.2`."""
    known, unit = cell.published, cell.column.unit
    if known is None or known.value is None:
        return (known and known.text) or NONE
    spread = f" ± {number(known.spread, unit, like=known.value)}" if known.spread is not None else ""
    return f"{number(known.value, unit)}{spread}{f' ({known.text})' if known.text else ''}"


def _difference(cell: Cell) -> str:
    """Our mean minus the published value: `-0.8 (-0.35 sd)`."""
    if cell.difference is None:
        return NONE
    text = number(cell.difference, cell.column.unit, signed=True)
    return text if cell.difference_in_sd is None else f"{text} ({number(cell.difference_in_sd, '', signed=True)} sd)"


def failed(row: RowSuccess | None) -> str:
    """Failures of a row's runs with the interval of their share in percent: `3/5 [14.7, 94.7]`."""
    if row is None or row.low is None or row.high is None:
        return NONE
    return f"{row.failed}/{row.n} [{number(row.low, SHARE.name)}, {number(row.high, SHARE.name)}]"


def shortcut_rows(cells: Iterable[Cell]) -> dict[str, dict[str, str]]:
    """Rows of shortcuts (`shortcut: most frequent answer`) that are the best of a cell: text by column.

    The lowest and the highest number, as rows may have different data; one where they are written alike.
    """
    cells = list(cells)
    best = dict.fromkeys(name for cell in cells for name, _ in cell.shortcuts[:1])
    rows: dict[str, dict[str, str]] = {}
    for name in best:
        values: dict[tuple[str, str], list[float]] = {}
        for cell in cells:
            key = cell.column.name, cell.column.unit
            values.setdefault(key, []).extend(value for other, value in cell.shortcuts if other == name)
        rows[f"shortcut: {name}"] = {
            column: " to ".join(dict.fromkeys(number(end, unit) for end in (min(ends), max(ends))))
            for (column, unit), ends in values.items()
            if ends
        }
    return rows


def glance(report: ReportFile) -> TextTable:
    """Rows by columns, as papers print it, failures last."""
    success, names = report.success, [column.name for column in report.columns]
    rows = [[row.name, *(_ours_and_published(row.cell(name)) for name in names)] for row in report.rows]
    rows = [[*row, failed(success.of(row[0]))] for row in rows] if success else rows
    rows += [
        [name, *(numbers.get(column, "") for column in names), *([NONE] if success else [])]
        for name, numbers in shortcut_rows(report.each()).items()
    ]
    heads = [
        report.head,
        *(label(column.name, column.unit) for column in report.columns),
        *([FAILED] if success else []),
    ]
    return TextTable("At a glance", heads, rows)


def _ours_and_published(cell: Cell | None) -> str:
    if cell is None:
        return ""
    return mean_and_sd(cell) + (f"; published {published(cell)}" if cell.published is not None else "")


def cell_by_cell(report: ReportFile) -> TextTable:
    """A line for every cell: ours, every seed, the error of the test set if a cell has one and, if anything was
    published, the comparison."""
    columns: list[tuple[str, Callable[[Cell], str]]] = [
        ("ours ± sd (seeds)", mean_and_sd),
        ("each seed", each_seed),
        ("best", lambda cell: _extreme(cell, cell.best)),
        ("worst", lambda cell: _extreme(cell, cell.worst)),
    ]
    if any(cell.test_set_error is not None for cell in report.each()):
        columns.append(("test set ±", _test_set_error))
    if any(cell.published for cell in report.each()):
        columns += [("published", published), ("ours - published", _difference)]
    rows = [
        [cell.row, label(cell.column.name, cell.column.unit), *(write(cell) for _, write in columns)]
        for cell in report.each()
    ]
    empty = [NONE] * (len(columns) - 1)
    for name, numbers in shortcut_rows(report.each()).items():
        rows += [[name, label(column, report.units[column]), text, *empty] for column, text in numbers.items()]
    return TextTable(report.title, [report.head, "", *(name for name, _ in columns)], rows, words=2)
