"""Figure of metrics over the size of the state that decoding keeps."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from attnlab.config.message_text import listed, show
from attnlab.config.validation.report_names import row_name, setting
from attnlab.learn.metric_units import OF_RUNS, label
from attnlab.plots.style import (
    COLOURS,
    PALE,
    empty_panel,
    label_panels,
    legend_below,
    legend_lines,
    line_looks,
    logarithmic,
    panel_columns,
    panels,
)
from attnlab.report.figures.row_pictures import (
    MEANS_AND_SEEDS,
    Drawn,
    axis_label,
    mark_shortcut,
    marks_note,
    means_and_seeds,
    title_panel,
)
from attnlab.report.report_record import Column
from attnlab.report.statistics.differences import mean
from attnlab.report.table_types import Table, TableError

STATE = "state_size"
MOST_LINES = 1 + len(COLOURS)
"""lines in one panel, each with a colour of its own"""


def by_state_size(table: Table) -> Drawn:
    """A panel for each column: means over the numbers kept in decoding; rows of one value of the first row key (such as
    one model at several widths), or of one task and the next key, are joined. Many lines have a panel each."""
    columns = [column for column in table.columns if column.metric not in OF_RUNS]
    if not columns:
        raise TableError(f"figures: {STATE} needs a column with a metric")
    lines, without = _lines(table)
    if not lines:
        raise TableError("figures: no row has a state: none of these networks decodes step by step")
    note = marks_note(table, MEANS_AND_SEEDS, "marker: {}")
    lost = f". Without a state: {listed(without)}" if without else ""
    caption = f"over the size of the state after the longest sequence; {note}{lost}"
    if len(lines) > MOST_LINES and len({column.unit for column in columns}) == 1:
        return _small_multiples(table, columns, lines, note), caption
    looks = line_looks(list(lines), next((name for name, rows in lines.items() if table.highlight in rows), None))
    figure, axes = panels(len(columns), panel_columns(len(columns)), 3.0, legend_lines(note, list(lines)))
    for axis, column in zip(axes, columns, strict=True):
        for name, rows in lines.items():
            _draw(axis, table, column, rows, looks[name] | {"label": name})
        if not any(cell.values for cell in table.each(column)):
            empty_panel(axis, "no run has a number")
        mark_shortcut(axis, table, column)
        axis.set(title=column.name, xlabel=label(STATE, OF_RUNS[STATE].name), ylabel=axis_label(column))
        _size_axis(axis)
    legend_below(figure, note)
    return figure, caption


def _small_multiples(table: Table, columns: Sequence[Column], lines: Mapping[str, Sequence[str]], note: str) -> Figure:
    """A panel for each line, with its columns in colour and all others of the first column in grey behind."""
    looks = line_looks([column.name for column in columns], columns[0].name)
    text = legend_lines(note, list(looks))
    per_row = panel_columns(len(lines))
    figure, axes = panels(len(lines), per_row, 1.3, text, sharex=True, sharey=True)
    for axis, (name, rows) in zip(axes, lines.items(), strict=True):
        for others in lines.values():
            _draw(axis, table, columns[0], others, {"color": PALE, "linewidth": 0.6, "zorder": 1}, seeds=False)
        for column in columns:
            _draw(axis, table, column, rows, looks[column.name] | {"label": column.name})
            mark_shortcut(axis, table, column, color=looks[column.name]["color"])
        title_panel(axis, name, per_row, table.highlight in rows)
        _size_axis(axis)
    for axis in axes[-per_row:]:
        axis.tick_params(labelbottom=True)
        axis.set_xlabel(label(STATE, OF_RUNS[STATE].name))
    label_panels(figure, axis_label(columns[0]))
    legend_below(figure, f"{note}, grey: {columns[0].name} of the others")
    return figure


def _size_axis(axis: Axes) -> None:
    """Logarithmic, with short numbers (20k)."""
    logarithmic(axis, "x")
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))


def _lines(table: Table) -> tuple[Mapping[str, Sequence[str]], list[str]]:
    """The rows of each line that have a state; rows without one."""
    lines: dict[str, dict[str, None]] = defaultdict(dict)
    without: dict[str, None] = {}
    # of several tasks, a line is a task and its model
    keys = table.report.rows[: 2 if table.report.rows[0] == "task" else 1]
    for run in table.runs:
        row = row_name(table.report, run.config)
        if run.value(STATE):
            lines[", ".join(show(setting(key, run.config)) for key in keys)][row] = None
        elif run.state == "finished":
            without[row] = None
    return {name: list(rows) for name, rows in lines.items()}, list(without)


def _draw(
    axis: Axes, table: Table, column: Column, rows: Sequence[str], look: dict[str, Any], seeds: bool = True
) -> None:
    """A line through the cells of some rows, by their states: these may differ between columns, as a cache of keys
    grows with the sequence."""
    cells = [(_size(table, row, column), table.cells[row].get(column.name)) for row in rows]
    means_and_seeds(axis, [(size, cell) for size, cell in cells if size and cell], look, seeds)


def _size(table: Table, row: str, column: Column) -> float | None:
    """The mean of the states behind a cell, over its columns where it is a mean; None where a run has none."""
    sizes = [run.value(STATE) for run in table.runs_behind(row, column) if run.state == "finished"]
    known = [size for size in sizes if size]
    return mean(known) if known and len(known) == len(sizes) else None
