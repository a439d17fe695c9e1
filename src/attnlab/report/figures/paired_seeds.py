"""Figure of paired seeds: a line from the number of one row to the number of another row for each seed that both have.

The rows are those of the hypotheses; without any, every row beside the first one of its task.
"""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.axes import Axes

from attnlab.config.report_block import Picture
from attnlab.learn.metric_units import lower_is_better
from attnlab.plots.style import COLOURS, EDGE, LINES, STRONG, beside, empty_panel, legend_below, legend_lines, panels
from attnlab.report.figures.row_pictures import axis_label, finished, lacking, limits, shown_column
from attnlab.report.report_record import Cell, Column
from attnlab.report.table_types import Drawn, Table, TableError

MOST_PAIRS = 60
"""panels of a picture"""
LETTERS = {1: 40, 2: 18, 3: 9}
"""characters of a row's name in one line below a panel, by the panels beside each other"""
BETTER, WORSE, EQUAL = "right row better", "right row worse", "equal"
LOOKS: Mapping[str, Mapping[str, Any]] = {
    BETTER: {"color": STRONG, "linestyle": "-", "linewidth": 1.8},
    WORSE: {"color": COLOURS[0], "linestyle": LINES[0], "linewidth": 1.8},
    EQUAL: {"color": EDGE, "linestyle": LINES[2], "linewidth": 1.2},
}


class Pair(NamedTuple):
    """The cells of two rows in a column: the base at the left, None where it has no runs, and the row at the right."""

    column: Column
    base: str
    row: str
    cells: tuple[Cell | None, Cell | None]

    @property
    def values(self) -> tuple[dict[int, float], dict[int, float]]:
        """The numbers of both rows by seed."""
        left, right = (cell.values if cell else {} for cell in self.cells)
        return left, right

    @property
    def seeds(self) -> list[int]:
        """The seeds with a number in both rows."""
        left, right = self.values
        return [seed for seed in left if seed in right]

    def kind(self, seed: int) -> str:
        """The label of the line of a common seed."""
        left, right = (values[seed] for values in self.values)
        if left == right:
            return EQUAL
        return BETTER if (right < left) == lower_is_better(self.column.metric) else WORSE

    @property
    def title(self) -> str:
        """The column, how many common seeds are better in the right row, and how many runs diverged."""
        kinds = [self.kind(seed) for seed in self.seeds]
        lost = sum(seed.diverged for cell in self.cells if cell for seed in cell.seeds)
        counts = [f"{kinds.count(BETTER)} of {len(kinds)} better"] if kinds else []
        counts += [f"{lost} diverged"] if lost else []
        return self.column.name + (": " + "\n".join(counts) if counts else "")


def pairs(table: Table, picture: Picture, path: Path) -> Drawn:
    """Draws a panel for each pair of rows.

    Raises:
        TableError: there are no two rows with a common seed, too many pairs, or no such column.
    """
    shown = _pairs(table, picture)
    if not any(pair.seeds for pair in shown):
        raise TableError("no two rows have a seed in common")
    if len(shown) > MOST_PAIRS:
        raise TableError(f"{len(shown)} pairs of rows, and a picture has at most {MOST_PAIRS}; name fewer runs or rows")
    drawn = {pair.kind(seed) for pair in shown for seed in pair.seeds}
    kinds = [kind for kind in LOOKS if kind in drawn]
    alone = any(values.keys() - set(pair.seeds) for pair in shown for values in pair.values)
    note = "line: the same seed in both rows" + (", open dot: a seed that the other row lacks" if alone else "")
    columns = beside(len(shown))
    figure, axes = panels(len(shown), columns, 2.3, legend_lines(note, kinds, 3))
    for axis, pair in zip(axes, shown, strict=True):
        _panel(axis, pair, shown, LETTERS[columns])
    handles = [axes[0].plot([], [], **LOOKS[kind], label=kind)[0] for kind in kinds]
    legend_below(figure, note, 3, handles)
    return finished(figure, path, table, f"paired seeds; {note}")


def _pairs(table: Table, picture: Picture) -> list[Pair]:
    """The pairs of rows of a table, each once."""
    pairs = [(claim.column, claim.than, claim.row) for claim in table.report.hypotheses if claim.column and claim.than]
    if picture.metric is not None or not pairs:
        known = [column for column in table.columns if any(cell.values for cell in table.each(column))]
        name = shown_column(table, picture.metric, known).name if known else ""
        pairs = [(name, pair.against, pair.row) for pair in table.comparisons() if pair.column == name]
    columns = {column.name: column for column in table.columns}
    return [
        Pair(columns[name], base, row, (table.cells.get(base, {}).get(name), table.cells.get(row, {}).get(name)))
        for name, base, row in dict.fromkeys(pairs)
    ]


def _panel(axis: Axes, pair: Pair, all_pairs: Sequence[Pair], letters: int) -> None:
    """One panel; panels of one column have one scale."""
    names = (pair.base, pair.row)
    axis.set(title=pair.title, xlim=(-0.4, 1.4), ylabel=axis_label(pair.column))
    if not pair.seeds:
        cells = zip(names, pair.cells, strict=True)
        without = [f"{name}: {lacking(cell)}" for name, cell in cells if not (cell and cell.values)]
        empty_panel(axis, "; ".join(without) or "no seed in common")
    axis.set_xticks((0, 1), [_broken(name, letters) for name in names])
    for seed in pair.seeds:
        axis.plot((0, 1), [values[seed] for values in pair.values], marker="o", markersize=4, **LOOKS[pair.kind(seed)])
    for x, values in enumerate(pair.values):
        rest = [value for seed, value in values.items() if seed not in pair.seeds]
        axis.plot([x] * len(rest), rest, "o", markersize=5, markerfacecolor="white", markeredgecolor=EDGE)
    alike = [values for other in all_pairs if other.column == pair.column for values in other.values]
    numbers = [value for values in alike for value in values.values()]
    if numbers:
        axis.set_ylim(limits(numbers, pair.column))


def _broken(name: str, letters: int) -> str:
    """A row's name in lines, broken at underscores where it can be."""
    return name if len(name) <= letters else textwrap.fill(name.replace("_", "_ "), letters).replace("_ ", "_")
