"""Figures with a line for each row of a table: accuracy by length, and a logged metric while training."""

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from attnlab.config.report_block import Picture
from attnlab.learn.metric_units import SHARE, label, problem, scaled, unit_of
from attnlab.plots.style import logarithmic, row_lines, save
from attnlab.report.build_table import row_name
from attnlab.report.read_runs import FoundRun
from attnlab.report.statistics import mean
from attnlab.report.table_types import Drawn, Table, TableError

ByLength = dict[str, dict[int, list[float]]]
"""by row and length: the values of all seeds"""


def by_length(table: Table, picture: Picture, path: Path) -> Drawn:
    """Draws a line for every row at the mean of its seeds, with their range as a band.

    Raises:
        TableError: no run has metrics by length.
    """
    subset, metric = picture.subset or "", picture.metric or ""
    if not subset:
        tried = [column.metric.rpartition("/")[::2] for column in table.columns]
        subset, metric = next((one for one in reversed(tried) if _values(table, *one)), ("test", "accuracy"))
    rows = _values(table, subset, metric)
    if not rows:
        raise TableError(f"figures: no run has {subset}/length_.../{metric}")
    unit = unit_of(metric)
    named = label(f"{subset}, {metric.replace('_', ' ')}", unit.name)
    figure = row_lines(rows, "length", named, partial(_length_line, unit.name == SHARE.name))
    caption = f"{table.report.title}: {subset} by length; mean and range over seeds"
    if left_out := sum(bool(problem(metric, value)) for _, _, value in _recorded(table, subset, metric)):
        caption += f"; {left_out} values that are none are left out"
    return [(save(figure, path), caption)]


def _values(table: Table, subset: str, metric: str) -> ByLength:
    """The values that can be drawn."""
    rows: ByLength = {}
    for run, length, value in _recorded(table, subset, metric):
        if not problem(metric, value):
            rows.setdefault(row_name(table.report, run), {}).setdefault(length, []).append(scaled(metric, value))
    return rows


def _recorded(table: Table, subset: str, metric: str) -> Iterator[tuple[FoundRun, int, float]]:
    """Run, length and recorded number; a range of lengths is drawn at its beginning."""
    pattern = re.compile(rf"{re.escape(subset)}/length_(\d+)(?:_\w+)?/{re.escape(metric)}")
    for run in table.finished():
        for name, value in run.result.get("metrics", {}).items():
            if found := pattern.fullmatch(name):
                yield run, int(found[1]), value


def _length_line(share: bool, axis: Axes, lengths: Mapping[int, list[float]], look: dict[str, Any]) -> None:
    xs = sorted(lengths)
    axis.plot(xs, [mean(lengths[x]) for x in xs], **look | {"markersize": 3})
    lows, highs = [min(lengths[x]) for x in xs], [max(lengths[x]) for x in xs]
    axis.fill_between(xs, lows, highs, color=look["color"], alpha=0.15, linewidth=0)
    if share:
        axis.set_ylim(min(0.0, *lows) - 3, 103)


def training(table: Table, picture: Picture, path: Path) -> Drawn:
    """Draws a metric of metrics.csv over steps: each seed as a thin line, the median of the seeds as a thick one.

    Raises:
        TableError: no run has logged the metric.
    """
    metric = picture.metric or "train/loss"
    rows, left_out = {}, 0
    for run in table.finished():
        logged = run.logged((metric,))
        points = {step: scaled(metric, value) for step, _, value in logged if not problem(metric, value)}
        left_out += len(logged) - len(points)
        if points:
            rows.setdefault(row_name(table.report, run), []).append(points)
    if not rows:
        raise TableError(f"figures: no run has logged {metric}")
    named = label(metric, unit_of(metric).name)
    figure = row_lines(rows, "optimiser step", named, _training_lines, named=2)
    for axis in figure.axes if metric.endswith("loss") else ():
        logarithmic(axis)
    seeds = "every seed (thin) and their median" if any(len(runs) > 1 for runs in rows.values()) else "one seed"
    seeds += f"; {left_out} logged values that no picture can hold are left out" if left_out else ""
    return [(save(figure, path), f"{table.report.title}: {metric} while training; {seeds}")]


def _training_lines(axis: Axes, runs: Sequence[Mapping[int, float]], look: dict[str, Any]) -> None:
    steps = sorted(set.intersection(*(set(points) for points in runs)))
    # a line of one point is invisible
    look |= {"marker": "o" if len(steps) == 1 else None}
    for points in runs if len(runs) > 1 else ():
        axis.plot(list(points), list(points.values()), **look | {"linewidth": 0.4, "linestyle": "-", "label": None})
    axis.plot(steps, [statistics.median(points[step] for points in runs) for step in steps], **look)
