"""Training curves: a logged metric over steps."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from attnlab.config.report_schema import Picture
from attnlab.learn.metric_units import label, problem, scaled, unit_of
from attnlab.plots.style import logarithmic, row_lines, save
from attnlab.report.build_table import row_name
from attnlab.report.table_types import Drawn, Table, TableError


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
    figure = row_lines(rows, "optimiser step", named, _lines, named=2)
    for axis in figure.axes if metric.endswith("loss") else ():
        logarithmic(axis)
    seeds = "every seed (thin) and their median" if any(len(runs) > 1 for runs in rows.values()) else "one seed"
    seeds += f"; {left_out} logged values that no picture can hold are left out" if left_out else ""
    return [(save(figure, path), f"{table.report.title}: {metric} while training; {seeds}")]


def _lines(axis: Axes, runs: Sequence[Mapping[int, float]], look: dict[str, Any]) -> None:
    steps = sorted(set.intersection(*(set(points) for points in runs)))
    # a line of one point is invisible
    look |= {"marker": "o" if len(steps) == 1 else None}
    for points in runs if len(runs) > 1 else ():
        axis.plot(list(points), list(points.values()), **look | {"linewidth": 0.4, "linestyle": "-", "label": None})
    axis.plot(steps, [statistics.median(points[step] for points in runs) for step in steps], **look)
