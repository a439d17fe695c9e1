"""Figures with a line of text for each row: bars, parts of errors."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from attnlab.data.task_spec import ORACLE_END, SEQUENCE_METRICS
from attnlab.learn.metric_units import SHARE
from attnlab.plots.style import COLOURS, EDGE, HATCHES, PALE, STRONG, legend_below
from attnlab.report.figures.row_pictures import (
    Drawn,
    axis_label,
    dots,
    interest,
    lacking,
    mark_shortcut,
    marks_note,
    reason,
    row_panels,
    seeds_in_words,
)
from attnlab.report.report_record import Cell, Column
from attnlab.report.statistics.differences import mean
from attnlab.report.table_types import Table, TableError

ACCURACY = SEQUENCE_METRICS[0]
PARTS: Mapping[str, Mapping[str, Any]] = {
    "right": {"facecolor": STRONG},
    "wrong end only": {"facecolor": COLOURS[0], "hatch": HATCHES[1]},
    "wrong content": {"facecolor": PALE},
}
"""parts of the outputs, from the left"""


def bars(table: Table) -> Drawn:
    """A panel for each column: a bar for every row, a dot for every seed, a line at the published value."""
    columns = [column for column in table.columns if any(cell.values for cell in table.each(column))]
    if not columns:
        raise TableError("there is no number to draw")
    note = marks_note(table, "bar: mean of {}, dot: one seed", "bar and dot: {}")
    figure, axes = row_panels(list(table.cells), len(columns), note, bold=table.highlight)
    for axis, column in zip(axes, columns, strict=True):
        draw_bars(axis, table, column)
    legend_below(figure, note, handles=())
    strongest = f". Blue: {table.highlight}" if table.highlight else ""
    return figure, f"numbers of each row; {note}{strongest}"


def draw_bars(axis: Axes, table: Table, column: Column) -> None:
    for y, (row, cells) in enumerate(table.cells.items()):
        cell = cells.get(column.name)
        if cell is None or cell.mean is None:
            reason(axis, y, lacking(cell))
        else:
            colour = STRONG if row == table.highlight else PALE
            axis.barh(y, cell.mean, height=0.7, color=colour, edgecolor=EDGE, linewidth=0.6, zorder=1)
            dots(axis, list(cell.values.values()), y)
        if cell and cell.published_number is not None:
            look: Any = {"color": COLOURS[3], "linewidth": 2.4, "zorder": 4, "solid_capstyle": "butt"}
            axis.plot([cell.published_number] * 2, [y - 0.45, y + 0.45], **look)
    axis.set(title=column.name, xlabel=axis_label(column))
    mark_shortcut(axis, table, column, vertical=True)
    if column.unit == SHARE.name:
        # pictures of percentages have one scale, so that they can be compared
        lowest = min((value for cell in table.each(column) for value in cell.values.values()), default=0.0)
        axis.set_xlim(lowest - 2 if lowest < 0 else 0, 102)
    elif axis.get_xlim()[0] > 0:
        axis.set_xlim(0)


def errors(table: Table) -> Drawn:
    """A panel for each test subset of sequence-to-sequence outputs: a bar for every row, divided into three parts.

    Content is right if every token is right when the end is given (`sequence_accuracy_oracle_end`, Newman et al. 2020).
    A right output has right content, so the outputs with a wrong end only are the difference of both shares.
    """
    columns: dict[str, Column] = {}
    for column in table.columns:
        subset, _, metric = column.metric.rpartition("/")
        if metric.startswith(ACCURACY) and not column.of:
            # columns with conditions have their names
            columns.setdefault(f"{column.name}: {subset}" if column.where else subset, column)
    panels = {
        title: {row: _right_and_content(table, cells.get(column.name)) for row, cells in table.cells.items()}
        for title, column in columns.items()
    }
    panels = {title: rows for title, rows in panels.items() if any(rows.values())}
    if not panels:
        raise TableError(f"no run has both {ACCURACY} and {ORACLE_END} of a column's subset")
    counts = [len(pairs) for rows in panels.values() for pairs in rows.values() if pairs]
    seeds = "one seed" if max(counts) == 1 else f"mean of {seeds_in_words(counts)}"
    note = (
        f"bar: outputs, {seeds}; black dot: share right, white dot: share with right content, of one seed"
        + interest(table)
    )
    figure, axes = row_panels(list(table.cells), len(panels), note, list(PARTS), bold=table.highlight)
    for axis, (title, rows) in zip(axes, panels.items(), strict=True):
        _draw_parts(axis, table, columns[title], rows)
        axis.set(title=title, xlabel=f"outputs ({SHARE.sign})", xlim=(0, 102))
    handles = [Patch(edgecolor=EDGE, linewidth=0.6, label=part, **look) for part, look in PARTS.items()]
    legend_below(figure, note, 3, handles)
    return figure, f"errors by kind; {note}"


def _right_and_content(table: Table, cell: Cell | None) -> list[tuple[float, float]]:
    """The percentages of right outputs and of outputs with right content, of each run that has both."""
    if cell is None:
        return []
    subset = cell.column.metric.rpartition("/")[0]
    runs = (table.by_folder[str(seed.folder)] for seed in cell.seeds)
    pairs = [(run.value(f"{subset}/{ACCURACY}"), run.value(f"{subset}/{ORACLE_END}")) for run in runs]
    return [(low, high) for low, high in pairs if low is not None and high is not None and low <= high]


def _draw_parts(axis: Axes, table: Table, column: Column, rows: Mapping[str, list[tuple[float, float]]]) -> None:
    for y, (row, pairs) in enumerate(rows.items()):
        if not pairs:
            cell = table.cells[row].get(column.name)
            reason(
                axis,
                y,
                lacking(cell) if cell is None or cell.mean is None else "not both accuracies",
            )
            continue
        right, content = zip(*pairs, strict=True)
        ends = [0.0, mean(right), mean(content), 100.0]
        for look, left, end in zip(PARTS.values(), ends[:-1], ends[1:], strict=True):
            axis.barh(y, end - left, left=left, height=0.7, edgecolor=EDGE, linewidth=0.6, zorder=1, **look)
        dots(axis, right, y)
        dots(axis, content, y, "white")
