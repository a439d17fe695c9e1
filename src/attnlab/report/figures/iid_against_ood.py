"""Figure of generalisation: the number of each run out of distribution over its number in distribution."""

from collections.abc import Mapping
from pathlib import Path

from attnlab.config.report_block import Picture
from attnlab.learn.metric_units import label
from attnlab.plots.style import EDGE, LINES, PALE, label_panels, legend_below
from attnlab.report.figures.row_pictures import (
    LINES_TOGETHER,
    RowLine,
    finished,
    interest,
    limits,
    line_panels,
    shown_column,
)
from attnlab.report.report_record import Column
from attnlab.report.table_types import Drawn, Table, TableError

IID = "iid"
SMALLEST, STEP = 4.0, 2.5
"""size of the rings of the first row in points, and how much larger the rings of each further row are"""
LEAST_LINE = 0.1
"""share of the shorter axis on which the line of equal numbers is seen"""
Points = list[tuple[float, float]]
"""in and out of distribution, of each run"""


def iid_ood(table: Table, picture: Picture, path: Path) -> Drawn:
    """Draws a dot for each run: all rows in one panel, or each in a panel of its own before the others in grey.

    Raises:
        TableError: no column of a test set other than test/iid whose runs have the same metric of test/iid.
    """
    columns = [column for column in table.columns if _in_distribution(column) and _points(table, column)]
    if not columns:
        raise TableError("no column of test/ood (or another test subset) has runs with the same metric of test/iid")
    column = shown_column(table, picture.metric, columns)
    rows = _points(table, column)
    together = len(rows) <= LINES_TOGETHER
    name = column.metric.split("/", 2)[2]
    xs, ys = zip(*(point for points in rows.values() for point in points), strict=True)
    (left, right), (low, high) = limits(xs, column), limits(ys, column)
    has_line = min(right, high) - max(left, low) > LEAST_LINE * min(right - left, high - low)
    what = "ring, each row's of another size" if together else "dot"
    note = f"{what}: {name} of a run; equal runs of a row are one{'; dashed: equal numbers' if has_line else ''}"
    note += "" if together else f"; grey: the other rows{interest(table)}"
    figure, lowest, lines = line_panels(table, {row: row for row in rows}, note, (3.4, 2.0))
    for axis in {line.axis: None for line in lines}:
        if has_line:
            axis.axline((0, 0), slope=1, color=EDGE, linewidth=0.8, linestyle=LINES[0], zorder=1)
        axis.set(xlim=(left, right), ylim=(low, high))
    for line in lines:
        _dots(line, rows, together)
    for axis in lowest:
        axis.set_xlabel(label(_in_distribution(column).removesuffix(f"/{name}"), column.unit))
    label_panels(figure, label(column.metric.removesuffix(f"/{name}"), column.unit))
    legend_below(figure, note, handles=None if together else ())
    return finished(figure, path, table, f"out of distribution over in distribution; {note}")


def _dots(line: RowLine, rows: Mapping[str, Points], together: bool) -> None:
    """The dots of a row's runs; in a panel of its own before those of all other rows."""
    marks = line.look | {"linestyle": "", "marker": "o"}
    if together:
        # rings, small ones in front: the runs of all rows at one place stay visible
        size, front = SMALLEST + STEP * line.at, 4 - line.at / LINES_TOGETHER
        marks |= {"markersize": size, "markerfacecolor": "none", "markeredgewidth": 1.0, "zorder": front}
    else:
        others = [point for other, points in rows.items() if other != line.row for point in points]
        line.axis.plot(*zip(*others, strict=True), "o", markersize=4, color=PALE)
        marks |= {"markersize": 5, "markerfacecolor": line.look["color"], "markeredgecolor": "white"}
        marks |= {"markeredgewidth": 0.5, "zorder": 4 - line.at / LINES_TOGETHER}
    line.axis.plot(*zip(*rows[line.row], strict=True), **marks)


def _in_distribution(column: Column) -> str:
    """The metric of test/iid beside a column's metric of another test subset; empty without one."""
    split, _, rest = column.metric.partition("/")
    subset, _, name = rest.partition("/")
    return "" if not split.startswith("test") or subset == IID or not name or column.of else f"{split}/{IID}/{name}"


def _points(table: Table, column: Column) -> dict[str, Points]:
    """The points of each row with a run that has both numbers."""
    rows: dict[str, Points] = {}
    for cell in table.each(column):
        runs = [(table.by_folder[str(seed.folder)].value(_in_distribution(column)), seed.value) for seed in cell.seeds]
        if points := [(x, y) for x, y in runs if x is not None and y is not None]:
            rows[cell.row] = points
    return rows
