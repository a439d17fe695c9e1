"""Figure of errors of sequence-to-sequence tasks: outputs with a wrong end only, and outputs with wrong content.

Content is right if every token is right when the end is given (`sequence_accuracy_oracle_end`, Newman et al. 2020). A
right output has right content, so the outputs with a wrong end only are the difference of both shares.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from attnlab.config.report_block import Picture
from attnlab.data.task_spec import ORACLE_END, SEQUENCE_METRICS
from attnlab.learn.metric_units import SHARE
from attnlab.plots.style import COLOURS, EDGE, HATCHES, PALE, STRONG, legend_below
from attnlab.report.figures.row_pictures import (
    dots,
    finished,
    interest,
    lacking,
    name_rows,
    reason,
    row_panels,
    seeds_in_words,
)
from attnlab.report.report_record import Cell, Column
from attnlab.report.statistics.differences import mean
from attnlab.report.table_types import Drawn, Table, TableError

ACCURACY = SEQUENCE_METRICS[0]
LOOKS: Mapping[str, Mapping[str, Any]] = {
    "right": {"facecolor": STRONG},
    "wrong end only": {"facecolor": COLOURS[0], "hatch": HATCHES[1]},
    "wrong content": {"facecolor": PALE},
}
"""parts of the outputs, from the left"""


class Parts(NamedTuple):
    """Ends of the parts of each seed's bar in percent: right outputs, outputs with right content."""

    right: list[float]
    content: list[float]


def errors(table: Table, picture: Picture, path: Path) -> Drawn:
    """Draws a panel for each test subset of the columns: a bar for every row, divided into three parts.

    Raises:
        TableError: no run has both accuracies.
    """
    columns = _columns(table)
    panels = {
        title: {row: _parts(table, cells.get(column.name)) for row, cells in table.cells.items()}
        for title, column in columns.items()
    }
    panels = {title: rows for title, rows in panels.items() if any(rows.values())}
    if not panels:
        raise TableError(f"no run has both {ACCURACY} and {ORACLE_END} of a column's subset")
    counts = [len(parts.right) for rows in panels.values() for parts in rows.values() if parts]
    seeds = "one seed" if max(counts) == 1 else f"mean of {seeds_in_words(counts)}"
    note = f"bar: outputs, {seeds}; dots: where the first two parts of each seed end" + interest(table)
    figure, axes, names = row_panels(list(table.cells), len(panels), note, list(LOOKS))
    for axis, (title, rows) in zip(axes, panels.items(), strict=True):
        _bars(axis, table, columns[title], rows)
        name_rows(axis, names, table.highlight)
        axis.set(title=title, xlabel=f"outputs ({SHARE.sign})", xlim=(0, 102))
    handles = [Patch(edgecolor=EDGE, linewidth=0.6, label=part, **look) for part, look in LOOKS.items()]
    legend_below(figure, note, 3, handles)
    return finished(figure, path, table, f"errors by kind; {note}")


def _columns(table: Table) -> dict[str, Column]:
    """A column for each subset with sequence accuracies, by the subset; columns with conditions have their names."""
    columns: dict[str, Column] = {}
    for column in table.columns:
        subset, _, metric = column.metric.rpartition("/")
        if metric.startswith(ACCURACY) and not column.of:
            columns.setdefault(f"{column.name}: {subset}" if column.where else subset, column)
    return columns


def _parts(table: Table, cell: Cell | None) -> Parts | None:
    """The parts of the runs of a cell that have both accuracies; None without any."""
    if cell is None:
        return None
    subset = cell.column.metric.rpartition("/")[0]
    runs = (table.by_folder[str(seed.folder)] for seed in cell.seeds)
    pairs = [(run.value(f"{subset}/{ACCURACY}"), run.value(f"{subset}/{ORACLE_END}")) for run in runs]
    both = [(low, high) for low, high in pairs if low is not None and high is not None and low <= high]
    return Parts(*map(list, zip(*both, strict=True))) if both else None


def _bars(axis: Axes, table: Table, column: Column, rows: Mapping[str, Parts | None]) -> None:
    """Draws one panel."""
    for y, (row, parts) in enumerate(rows.items()):
        if parts is None:
            cell = table.cells[row].get(column.name)
            reason(axis, y, lacking(cell) if cell is None or cell.mean is None else "not both accuracies")
            continue
        right, content = mean(parts.right), mean(parts.content)
        for look, left, end in zip(LOOKS.values(), (0.0, right, content), (right, content, 100.0), strict=True):
            axis.barh(y, end - left, left=left, height=0.7, edgecolor=EDGE, linewidth=0.6, zorder=1, **look)
        dots(axis, parts.right, y)
        dots(axis, parts.content, y, "white")
