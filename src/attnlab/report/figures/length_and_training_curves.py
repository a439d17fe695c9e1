"""Figures with a line for each row of a table: accuracy by length, and a logged metric while training."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from attnlab.config.report_block import Picture
from attnlab.config.report_names import row_name
from attnlab.learn.metric_units import SHARE, label, number, problem, scaled, unit_of
from attnlab.plots.style import (
    LINES,
    beside,
    empty_panel,
    label_panels,
    legend_below,
    legend_lines,
    line_looks,
    logarithmic,
    panel_title,
    panels,
)
from attnlab.report.figures.finished_picture import finished, interest, seeds_in_words
from attnlab.report.runs.read_runs import FoundRun
from attnlab.report.statistics.differences import mean
from attnlab.report.statistics.length_breakdown import recorded_lengths
from attnlab.report.table_types import Drawn, Table, TableError

ORACLE = "_oracle_end"
"""ends the name of an accuracy whose outputs end where the target does"""
HALF = 50.0
"""percent; a caption names the first length below"""
MOST_NAMED = 4
"""rows that a caption names"""
LINES_TOGETHER = 6
"""training curves in one panel"""
ByLength = dict[str, dict[int, list[float]]]
"""by row and length: the values of all seeds"""


def by_length(table: Table, picture: Picture, path: Path) -> Drawn:
    """Draws a panel for every row: the mean of its seeds with their range as a band, the oracle rule dashed.

    Raises:
        TableError: no run has metrics by length.
    """
    subset, metric = picture.subset or "", picture.metric or ""
    if not subset:
        tried = [column.metric.rpartition("/")[::2] for column in table.columns]
        subset, metric = next((one for one in reversed(tried) if _values(table, *one)), ("test", "accuracy"))
    metric = metric.removesuffix(ORACLE)
    rows, oracle = _values(table, subset, metric), _values(table, subset, metric + ORACLE)
    drawn = [lines for lines in (rows, oracle) if lines]
    if not drawn:
        raise TableError(f"figures: no run has {subset}/length_.../{metric}")
    share = unit_of(metric).name == SHARE.name
    names: dict[Any, str] = {"-": metric.replace("_", " ")} if rows else {}
    names |= {LINES[0]: "with the end given by an oracle"} if oracle else {}
    columns = beside(len(table.cells))
    note = _note([len(values) for lines in drawn for lengths in lines.values() for values in lengths.values()])
    note += interest(table)
    lines = legend_lines(note, list(names.values()))
    figure, axes = panels(len(table.cells), columns, 2.3, lines, sharey=True, sharex=True)
    for axis, (row, look) in zip(axes, line_looks(list(table.cells), table.highlight).items(), strict=True):
        axis.set_title(panel_title(row, columns), fontweight="bold" if row == table.highlight else "normal")
        look |= {"linestyle": "-"}
        if not any(row in lines for lines in drawn):
            empty_panel(axis, f"no finished run has {subset} by length")
        else:
            _length_line(axis, rows.get(row, {}), look)
            _length_line(axis, oracle.get(row, {}), look | {"linestyle": LINES[0], "markerfacecolor": "white"})
    for axis in axes:
        axis.tick_params(labelbottom=True)
    for axis in axes[-columns:]:
        axis.set_xlabel("length")
    if share:
        axes[0].set_ylim(min([0.0, *_all(rows), *_all(oracle)]) - 3, 103)
    label_panels(figure, f"{subset} ({SHARE.sign if share else unit_of(metric).name})")
    handles = [Line2D([], [], color="black", linestyle=style, label=name) for style, name in names.items()]
    legend_below(figure, note, handles=handles)
    parts = [f"{subset} by length; {note}", _falls(rows, "") if share and rows else ""]
    parts += [_falls(oracle, " with the end given by an oracle")] if share and oracle else []
    if left_out := sum(bool(problem(metric, value)) for _, _, value in _recorded(table, subset, metric)):
        parts.append(f"Left out: {left_out} values that are none")
    return finished(figure, path, table, parts)


def _note(counts: Sequence[int]) -> str:
    """The meaning of the marks, by the numbers of seeds at each length."""
    seeds = seeds_in_words(counts)
    return f"line: mean of {seeds}, band: lowest to highest" if max(counts) > 1 else f"line: {seeds}"


def _all(rows: ByLength) -> list[float]:
    return [value for lengths in rows.values() for values in lengths.values() for value in values]


def _falls(rows: ByLength, condition: str) -> str:
    """The first length at which the mean of each row is below `HALF`, in words."""
    found = []
    for row, lengths in list(rows.items())[:MOST_NAMED]:
        below = next((length for length in sorted(lengths) if mean(lengths[length]) < HALF), None)
        last = max(lengths)
        found.append(f"{row} at length {below}" if below is not None else f"{row} at none up to {last}")
    return f"First mean below {HALF:.0f} %{condition}: {'; '.join(found)}"


def _values(table: Table, subset: str, metric: str) -> ByLength:
    """The values that can be drawn."""
    rows: ByLength = {}
    for run, length, value in _recorded(table, subset, metric):
        if not problem(metric, value):
            rows.setdefault(row_name(table.report, run.config), {}).setdefault(length, []).append(scaled(metric, value))
    return rows


def _recorded(table: Table, subset: str, metric: str) -> Iterator[tuple[FoundRun, int, float]]:
    """Run, length and recorded number; a range of lengths is drawn at its beginning."""
    for run in table.finished():
        for first, _, _, value in recorded_lengths(run, f"{subset}/{metric}"):
            yield run, first, value


def _length_line(axis: Axes, lengths: Mapping[int, list[float]], look: dict[str, Any]) -> None:
    xs = sorted(lengths)
    axis.plot(xs, [mean(lengths[x]) for x in xs], **look)
    lows, highs = [min(lengths[x]) for x in xs], [max(lengths[x]) for x in xs]
    axis.fill_between(xs, lows, highs, color=look["color"], alpha=0.2, linewidth=0)


def training(table: Table, picture: Picture, path: Path) -> Drawn:
    """Draws a metric of metrics.csv over steps: each seed as a thin line, the median of the seeds as a thick one.

    Raises:
        TableError: no run has logged the metric.
    """
    metric = picture.metric or "train/loss"
    rows: dict[str, list[dict[int, float]]] = {}
    left_out = 0
    for run in table.finished():
        logged = run.logged((metric,))
        points = {step: scaled(metric, value) for step, _, value in logged if not problem(metric, value)}
        left_out += len(logged) - len(points)
        if points:
            rows.setdefault(row_name(table.report, run.config), []).append(points)
    if not rows:
        raise TableError(f"figures: no run has logged {metric}")
    together = len(rows) <= LINES_TOGETHER
    seeds = seeds_in_words([len(runs) for runs in rows.values()])
    note = f"line: median of {seeds}, thin lines: every seed" if seeds != "one seed" else f"line: {seeds}"
    note += interest(table) if table.highlight in rows else ""
    named = list(rows) if together and len(rows) > 1 else []
    number_of, columns = (1, 1) if together else (len(rows), beside(len(rows)))
    height, lines = 2.9 if together else 2.0, legend_lines(note, named)
    figure, axes = panels(number_of, columns, height, lines, sharey=True, sharex=True)
    for at, (row, look) in enumerate(line_looks(list(rows), table.highlight).items()):
        axis = axes[0 if together else at]
        axis.set(title="" if together else panel_title(row, columns))
        _training_lines(axis, rows[row], look | {"label": row} | ({} if together else {"linestyle": "-"}))
    for axis in axes[-columns:]:
        axis.set_xlabel("optimiser step")
        axis.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 2.5, 5, 10]))
        axis.tick_params(labelbottom=True)
    label_panels(figure, label(metric, unit_of(metric).name))
    for axis in axes if metric.endswith("loss") else ():
        logarithmic(axis)
    legend_below(figure, note, handles=None if named else ())
    note += f"; {left_out} logged values that no picture can hold are left out" if left_out else ""
    return finished(figure, path, table, [f"{metric} while training; {note}", _ends(rows, metric)])


def _ends(rows: Mapping[str, Sequence[Mapping[int, float]]], metric: str) -> str:
    """The median over seeds of the last logged value of each row, in words."""
    unit = unit_of(metric).name
    last = {row: statistics.median(points[max(points)] for points in runs) for row, runs in rows.items()}
    named = [f"{row} {number(value, unit)}" for row, value in list(last.items())[:MOST_NAMED]]
    return f"Median of the last values: {'; '.join(named)}"


def _training_lines(axis: Axes, runs: Sequence[Mapping[int, float]], look: dict[str, Any]) -> None:
    steps = sorted(set.intersection(*(set(points) for points in runs)))
    for points in runs if len(runs) > 1 else ():
        thin = {"linewidth": 0.5, "linestyle": "-", "label": None, "marker": None, "alpha": 0.7}
        axis.plot(list(points), list(points.values()), **look | thin)
    # a line of one point is invisible without its marker
    look |= {"markevery": max(1, len(steps) // 8)}
    axis.plot(steps, [statistics.median(points[step] for points in runs) for step in steps], **look)
