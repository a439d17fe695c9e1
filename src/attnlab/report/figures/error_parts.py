"""Figure of errors of sequence-to-sequence tasks: outputs with a wrong end only, and outputs with wrong content.

An output is right if every token and the end are right (`sequence_accuracy`). Its content is right if every token is
right when the end is given: the network never writes an end token, and the output ends where the target does
(`sequence_accuracy_oracle_end`, Newman et al. 2020). A right output has right content, example by example, as greedy
decoding chooses the same tokens up to the end. So the outputs with a wrong end only are the difference of both shares:
the network ended too early or too late, and wrote, or would have written, every token. Outputs with wrong content have
a wrong token even so; their own end may be wrong too.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from attnlab.config.report_block import Picture
from attnlab.data.task_spec import ORACLE_END, SEQUENCE_METRICS
from attnlab.learn.metric_units import SHARE, number
from attnlab.plots.style import COLOURS, EDGE, HATCHES, PALE, STRONG, legend_below
from attnlab.report.figures.finished_picture import finished, interest, seeds_in_words
from attnlab.report.figures.named_rows import dots, lacking, name_rows, reason, row_panels
from attnlab.report.statistics.differences import mean
from attnlab.report.table_types import Cell, Column, Drawn, Table, TableError

ACCURACY = SEQUENCE_METRICS[0]
LOOKS: Mapping[str, Mapping[str, Any]] = {
    "right": {"facecolor": STRONG},
    "wrong end only": {"facecolor": COLOURS[0], "hatch": HATCHES[1]},
    "wrong content": {"facecolor": PALE},
}
"""parts of the outputs, from the left"""
MOST_NAMED = 4
"""rows that a caption names"""


class Parts(NamedTuple):
    """Ends of the parts of each seed's bar in percent: right outputs, outputs with right content."""

    right: list[float]
    content: list[float]

    @property
    def wrong_end(self) -> float:
        """The mean share of outputs with a wrong end only."""
        return mean(self.content) - mean(self.right)


def errors(table: Table, picture: Picture, path: Path) -> Drawn:
    """Draws a panel for each test subset of the columns: a bar for every row, divided into three parts.

    Raises:
        TableError: no run has both accuracies.
    """
    columns = _columns(table)
    found = {
        title: {row: _parts(table, cells.get(one.name)) for row, cells in table.cells.items()}
        for title, one in columns.items()
    }
    found = {title: rows for title, rows in found.items() if any(rows.values())}
    if not found:
        raise TableError(f"no run has both {ACCURACY} and {ORACLE_END} of a column's subset")
    counts = [len(parts.right) for rows in found.values() for parts in rows.values() if parts]
    seeds = "one seed" if max(counts) == 1 else f"mean of {seeds_in_words(counts)}"
    note = f"bar: outputs, {seeds}; dots: where the first two parts of each seed end" + interest(table)
    figure, axes, names = row_panels(list(table.cells), len(found), note, list(LOOKS))
    for axis, (title, rows) in zip(axes, found.items(), strict=True):
        _bars(axis, table, columns[title], rows)
        name_rows(axis, names, table.highlight)
        axis.set(title=title, xlabel=f"outputs ({SHARE.sign})", xlim=(0, 102))
    handles = [Patch(edgecolor=EDGE, linewidth=0.6, label=part, **look) for part, look in LOOKS.items()]
    legend_below(figure, note, 3, handles)
    return finished(
        figure, path, table, [f"errors by kind; {note}", *(_seen(title, rows) for title, rows in found.items())]
    )


def _columns(table: Table) -> dict[str, Column]:
    """A column for each subset with sequence accuracies, by the subset; columns with conditions have their names."""
    found: dict[str, Column] = {}
    for column in (one for one in table.columns if not one.of):
        subset, _, metric = column.metric.rpartition("/")
        if metric.startswith(ACCURACY):
            found.setdefault(f"{column.name}: {subset}" if column.where else subset, column)
    return found


def _parts(table: Table, cell: Cell | None) -> Parts | None:
    """The parts of the runs of a cell that have both accuracies; None without any."""
    found = Parts([], [])
    for seed in cell.seeds if cell else ():
        run, subset = table.by_folder[str(seed.folder)], cell.column.metric.rpartition("/")[0] if cell else ""
        right, content = (run.value(f"{subset}/{name}") for name in (ACCURACY, ORACLE_END))
        if right is not None and content is not None and right <= content:
            found.right.append(right)
            found.content.append(content)
    return found if found.right else None


def _bars(axis: Axes, table: Table, column: Column, rows: Mapping[str, Parts | None]) -> None:
    """One panel."""
    for y, (row, parts) in enumerate(rows.items()):
        if parts is None:
            cell = table.cells[row].get(column.name)
            reason(axis, y, lacking(cell) if cell is None or cell.mean is None else "not both accuracies")
            continue
        ends = [0.0, mean(parts.right), mean(parts.content), 100.0]
        for look, left, right in zip(LOOKS.values(), ends, ends[1:], strict=False):
            axis.barh(y, right - left, left=left, height=0.7, edgecolor=EDGE, linewidth=0.6, zorder=1, **look)
        dots(axis, parts.right, y)
        dots(axis, parts.content, y, "white")


def _seen(title: str, rows: Mapping[str, Parts | None]) -> str:
    """The share of outputs with a wrong end only of each row, in words."""
    known = [(row, parts) for row, parts in rows.items() if parts][:MOST_NAMED]
    told = [
        f"{row} {number(parts.wrong_end, SHARE.name)} of {number(100 - mean(parts.right), SHARE.name)}"
        for row, parts in known
    ]
    return f"Wrong end only, of all wrong outputs in percent, {title}: {'; '.join(told)}"
