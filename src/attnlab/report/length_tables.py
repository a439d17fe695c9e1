"""Tables of accuracy by length."""

from collections.abc import Sequence
from typing import Any

from attnlab.config.message_text import listed
from attnlab.learn.metric_units import SHARE, as_float, number
from attnlab.report.report_record import Cell, ReportFile
from attnlab.report.text_tables import TextTable

HEADING = "Accuracy by length"
ABOVE = "In percent; the length is of the output, or of the input where the answer is a class"
SHARES = "share of the test set"
FLAT = 1.0
"""points: a column is not broken down where no length is further from the mean of its row"""


def length_tables(report: ReportFile) -> tuple[str, list[TextTable]]:
    """A sentence on the breakdowns, empty without any, and a table for each column and each distribution of lengths.

    Flat ones, in which no length is further than `FLAT` from the mean of its row, stand in the sentence only.
    """
    groups: dict[tuple, list[Cell]] = {}
    for cell in report.each():
        if cell.by_length and cell.mean is not None:
            places = [(part.first, part.last, round(part.share, 6)) for part in cell.by_length]
            groups.setdefault((cell.column.name, *places), []).append(cell)
    if not groups:
        return "", []
    order = list(dict.fromkeys(name for name, *_ in groups))
    found = [cells for _, cells in sorted(groups.items(), key=lambda pair: order.index(pair[0][0]))]
    flat = dict.fromkeys(cells[0].column.name for cells in found if _is_flat(cells))
    about = f"{ABOVE}. {listed(flat)}: no length is more than {FLAT:.0f} point from the mean." if flat else f"{ABOVE}."
    return about, [_breakdown(cells) for cells in found if not _is_flat(cells)]


def _is_flat(cells: Sequence[Cell]) -> bool:
    """Whether accuracy is the same at all lengths, in every row."""
    return all(
        abs(as_float(part.mean) - as_float(cell.mean or 0)) <= FLAT for cell in cells for part in cell.by_length or ()
    )


def _breakdown(cells: Sequence[Cell]) -> TextTable:
    """Share of each length in the test set, then the mean of every row at each length."""
    parts = cells[0].by_length or []
    rows: list[tuple[str, list[Any]]] = [(SHARES, [100.0, *(part.share for part in parts)])]
    rows += [(cell.row, [cell.mean, *(part.mean for part in cell.by_length or ())]) for cell in cells]
    column = cells[0].column.name
    texts = [[name, *(number(value, SHARE.name) for value in values)] for name, values in rows]
    return TextTable(f"{column} by length", [column, "all", *(part.name for part in parts)], texts)
