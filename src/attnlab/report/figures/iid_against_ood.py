"""Figure of generalisation: the number of each run out of distribution over its number in distribution."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes

from attnlab.config.report_block import Picture
from attnlab.learn.metric_units import label, number
from attnlab.plots.style import (
    EDGE,
    LINES,
    PALE,
    beside,
    label_panels,
    legend_below,
    legend_lines,
    line_looks,
    panel_title,
    panels,
)
from attnlab.report.figures.finished_picture import finished, interest
from attnlab.report.figures.named_rows import limits, shown_column
from attnlab.report.statistics.differences import mean
from attnlab.report.table_types import Column, Drawn, Table, TableError

IID = "iid"
ROWS_TOGETHER = 6
"""rows in one panel"""
SMALLEST, STEP = 4.0, 2.5
"""size of the rings of the first row in points, and how much larger the rings of each further row are"""
MOST_NAMED = 4
"""rows that a caption names"""
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
    together = len(rows) <= ROWS_TOGETHER
    name = column.metric.split("/", 2)[2]
    what = "ring, each row's of another size" if together else "dot"
    xs, ys = zip(*(point for points in rows.values() for point in points), strict=True)
    ends = limits(xs, column), limits(ys, column)
    has_line = _overlap(*ends) > LEAST_LINE
    note = f"{what}: {name} of a run; equal runs of a row are one{'; dashed: equal numbers' if has_line else ''}"
    note += "" if together else f"; grey: the other rows{interest(table)}"
    number_of, columns_of = (1, 1) if together else (len(rows), beside(len(rows)))
    height, lines = 3.4 if together else 2.0, legend_lines(note, list(rows) if together else [])
    figure, axes = panels(number_of, columns_of, height, lines, sharex=True, sharey=True)
    for axis in axes:
        if has_line:
            axis.axline((0, 0), slope=1, color=EDGE, linewidth=0.8, linestyle=LINES[0], zorder=1)
        axis.set(xlim=ends[0], ylim=ends[1])
    _dots(axes, table, rows, columns_of)
    for axis in axes[-columns_of:]:
        axis.tick_params(labelbottom=True)
        axis.set_xlabel(label(_in_distribution(column).removesuffix(f"/{name}"), column.unit))
    label_panels(figure, label(column.metric.removesuffix(f"/{name}"), column.unit))
    legend_below(figure, note, handles=None if together else ())
    parts = [f"out of distribution over in distribution; {note}", _seen(rows, column.unit)]
    return finished(figure, path, table, parts)


def _overlap(one: tuple[float, float], other: tuple[float, float]) -> float:
    """The length that two ranges share, as a share of the shorter one."""
    shared = min(one[1], other[1]) - max(one[0], other[0])
    return shared / min(one[1] - one[0], other[1] - other[0])


def _dots(axes: Sequence[Axes], table: Table, rows: Mapping[str, Points], columns: int) -> None:
    """The dots of all runs, in one panel or in a panel for each row."""
    for at, (row, look) in enumerate(line_looks(list(rows), table.highlight).items()):
        axis = axes[at if len(axes) > 1 else 0]
        # rings, small ones in front: the runs of all rows at one place stay visible
        marks = look | {
            "linestyle": "",
            "marker": "o",
            "markersize": SMALLEST + STEP * at,
            "markerfacecolor": "none",
            "markeredgewidth": 1.0,
            "zorder": 4 - at / ROWS_TOGETHER,
        }
        if len(axes) > 1:
            axis.set_title(panel_title(row, columns), fontweight="bold" if row == table.highlight else "normal")
            others = [point for other, points in rows.items() if other != row for point in points]
            axis.plot(*zip(*others, strict=True), "o", markersize=4, color=PALE)
            marks |= {"markersize": 5, "markerfacecolor": look["color"], "markeredgecolor": "white"}
            marks["markeredgewidth"] = 0.5
        axis.plot(*zip(*rows[row], strict=True), label=row, **marks)


def _in_distribution(column: Column) -> str:
    """The metric of test/iid beside a column's metric of another test subset; empty without one."""
    split, _, rest = column.metric.partition("/")
    subset, _, name = rest.partition("/")
    return "" if not split.startswith("test") or subset == IID or not name or column.of else f"{split}/{IID}/{name}"


def _points(table: Table, column: Column) -> dict[str, Points]:
    """The points of each row with a run that has both numbers."""
    found: dict[str, Points] = {}
    for cell in table.each(column):
        runs = [(table.by_folder[str(seed.folder)].value(_in_distribution(column)), seed.value) for seed in cell.seeds]
        if points := [(x, y) for x, y in runs if x is not None and y is not None]:
            found[cell.row] = points
    return found


def _seen(rows: Mapping[str, Points], unit: str) -> str:
    """The means of each row, in words."""
    told = []
    for row, points in list(rows.items())[:MOST_NAMED]:
        iid, ood = (number(mean(values), unit) for values in zip(*points, strict=True))
        told.append(f"{row} {iid} and {ood}")
    return f"Means in and out of distribution: {'; '.join(told)}"
