"""Curves of training: what was logged over steps."""

import statistics
from pathlib import Path

from attnlab.config.report import Picture
from attnlab.run.draw.style import line_look, panels, save
from attnlab.run.report.cells import Table, TableError
from attnlab.run.report.quantities import factor_of, unit_of
from attnlab.run.report.table import row_name


def training(table: Table, picture: Picture, path: Path) -> list[tuple[Path, str]]:
    """A metric of metrics.csv over steps: every seed as a thin line, the median of the seeds as a thick one.

    Raises:
        TableError: no run has logged it.
    """
    metric = picture.metric or "train/loss"
    factor, rows = factor_of(metric), {}
    for run in (run for run in table.runs if run.state == "finished"):
        points = {step: factor * value for step, _, value in run.logged((metric,))}
        if points:
            rows.setdefault(row_name(table.report, run), []).append(points)
    if not rows:
        raise TableError(f"figures: no run has logged {metric}")
    figure, [axis] = panels(1, 1, 5.2, 3.0)
    for number, (row, runs) in enumerate(rows.items()):
        look = line_look(number) | {"marker": None}
        for points in runs if len(runs) > 1 else ():
            axis.plot(list(points), list(points.values()), **look | {"linewidth": 0.4, "linestyle": "-"})
        steps = sorted(set.intersection(*(set(points) for points in runs)))
        axis.plot(steps, [statistics.median(points[step] for points in runs) for step in steps], **look, label=row)
    unit = unit_of(metric)
    axis.set(xlabel="optimiser step", ylabel=f"{metric} (%)" if unit == "percent" else metric)
    if metric.endswith("loss"):
        axis.set_yscale("log")
    if len(rows) > 1:
        axis.legend()
    seeds = "every seed (thin) and their median" if any(len(runs) > 1 for runs in rows.values()) else "one seed"
    return [(save(figure, path), f"{table.report.title}: {metric} while training; {seeds}")]
