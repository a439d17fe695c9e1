"""Figures with a dot for each run: one of its numbers over another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnlab.learn.metric_units import label
from attnlab.plots.style import EDGE, LINES, PALE, label_panels, legend_below
from attnlab.report.figures.row_pictures import LINES_TOGETHER, Drawn, interest, limits, line_panels, shown_column
from attnlab.report.report_record import Column
from attnlab.report.statistics.rank_correlation import LEAST_RUNS, RankCorrelation
from attnlab.report.table_types import Table, TableError

IID = "iid"
SMALLEST, STEP = 4.0, 2.5
"""size of the rings of the first row in points, and how much larger the rings of each further row are"""
LEAST_LINE = 0.1
"""share of the shorter axis on which the line of equal numbers is seen"""
Points = Mapping[str, Sequence[tuple[float, float]]]
"""by row: the numbers of each run at both axes"""


@dataclass(frozen=True)
class Axis:
    """Label and ends of an axis."""

    label: str
    ends: tuple[float, float]

    @property
    def size(self) -> float:
        return self.ends[1] - self.ends[0]


def iid_ood(table: Table, metric: str | None) -> Drawn:
    """Out of distribution over in distribution."""
    points_of = {column.name: points for column in table.columns if (points := _iid_and_ood(table, column))}
    if not points_of:
        raise TableError("no column of test/ood (or another test subset) has runs with the same metric of test/iid")
    column = shown_column(metric, [column for column in table.columns if column.name in points_of])
    rows, name = points_of[column.name], column.metric.split("/", 2)[2]
    xs, ys = zip(*(point for points in rows.values() for point in points), strict=True)
    across = Axis(label(f"{column.metric.partition('/')[0]}/{IID}", column.unit), limits(xs, column))
    up = Axis(label(column.metric.removesuffix(f"/{name}"), column.unit), limits(ys, column))
    shared = min(across.ends[1], up.ends[1]) - max(across.ends[0], up.ends[0])
    has_line = shared > LEAST_LINE * min(across.size, up.size)
    figure, note = _drawn(table, rows, (across, up), {row: row for row in rows}, name, has_line)
    return figure, f"out of distribution over in distribution; {note}"


def _iid_and_ood(table: Table, column: Column) -> dict[str, list[tuple[float, float]]]:
    """By row, for each run that has both: its metric of test/iid, and the one of another test subset in a column."""
    split, _, rest = column.metric.partition("/")
    subset, _, name = rest.partition("/")
    rows: dict[str, list[tuple[float, float]]] = {}
    if not split.startswith("test") or subset == IID or not name or column.of:
        return rows
    for cell in table.each(column):
        runs = [(table.by_folder[str(seed.folder)].value(f"{split}/{IID}/{name}"), seed.value) for seed in cell.seeds]
        if points := [(x, y) for x, y in runs if x is not None and y is not None]:
            rows[cell.row] = points
    return rows


def scatter(table: Table, x: str, metric: str | None) -> Drawn:
    """A column over another one, by seed, with the rank correlation of each row."""
    across = shown_column(x, table.columns)
    up = shown_column(metric, [column for column in table.columns if column != across])
    rows: dict[str, list[tuple[float, float]]] = {}
    for row, cells in table.cells.items():
        xs, ys = (cells[column.name].values if column.name in cells else {} for column in (across, up))
        if common := [(xs[seed], ys[seed]) for seed in xs if seed in ys]:
            rows[row] = common
    if not rows:
        raise TableError(f"no run has a number in {across.name} and in {up.name}")
    axes = [
        Axis(
            label(column.name, column.unit), limits([point[at] for points in rows.values() for point in points], column)
        )
        for at, column in enumerate((across, up))
    ]
    labels = dict(zip(rows, rows, strict=True))
    for row, points in rows.items():
        if len(points) >= LEAST_RUNS:
            labels[row] = f"{row}: {RankCorrelation(*zip(*points, strict=True))}"
    more = "" if labels.keys() == set(labels.values()) else "; Spearman's rank correlation over seeds, 95 % interval"
    quantities = f"{up.name} over {across.name}"
    figure, note = _drawn(table, rows, (axes[0], axes[1]), labels, quantities, more=more)
    return figure, f"{quantities}; {note}"


def _drawn(
    table: Table,
    rows: Points,
    axes: tuple[Axis, Axis],
    labels: Mapping[str, str],
    quantities: str,
    has_line: bool = False,
    more: str = "",
) -> Drawn:
    """All rows in one panel, or each in a panel of its own before the others in grey; the figure and its note.

    Args:
        labels: of the rows.
        quantities: the numbers of a dot, in words.
        has_line: whether there is a line of equal numbers.
        more: the end of the note.
    """
    (across, up), together = axes, len(rows) <= LINES_TOGETHER
    shape = "ring, whose size marks the row" if together else "dot"
    note = f"{shape}: {quantities} of a run; equal runs are drawn once{'; dashed: equal numbers' if has_line else ''}"
    note += more + ("" if together else f"; grey: the other rows{interest(table)}")
    figure, lowest, lines = line_panels(table, labels, note, (3.4, 2.0))
    for axis in {line.axis: None for line in lines}:
        if has_line:
            axis.axline((0, 0), slope=1, color=EDGE, linewidth=0.8, linestyle=LINES[0], zorder=1)
        axis.set(xlim=across.ends, ylim=up.ends)
    for row, axis, at, look in lines:
        marks: dict[str, Any] = look | {"linestyle": "", "marker": "o", "zorder": 4 - at / LINES_TOGETHER}
        if together:
            # rings, small ones in front: the runs of all rows at one place stay visible
            marks |= {"markersize": SMALLEST + STEP * at, "markerfacecolor": "none", "markeredgewidth": 1.0}
        else:
            others = [point for other, points in rows.items() if other != row for point in points]
            axis.plot(*zip(*others, strict=True), "o", markersize=4, color=PALE)
            marks |= {"markersize": 5, "markerfacecolor": look["color"], "markeredgecolor": "white"}
            marks |= {"markeredgewidth": 0.5}
        axis.plot(*zip(*rows[row], strict=True), **marks)
    for axis in lowest:
        axis.set_xlabel(across.label)
    label_panels(figure, up.label)
    legend_below(figure, note, handles=None if together else ())
    return figure, note
