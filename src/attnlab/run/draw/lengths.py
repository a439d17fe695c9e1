"""Accuracy by length: what a mean over lengths hides."""

import re
from collections.abc import Mapping
from pathlib import Path

from matplotlib.axes import Axes

from attnlab.config.report import Picture
from attnlab.run.draw.style import line_look, row_panels, save
from attnlab.run.report.cells import Table, TableError
from attnlab.run.report.quantities import factor_of, unit_of
from attnlab.run.report.statistics import mean
from attnlab.run.report.table import row_name

ByLength = dict[str, dict[int, list[float]]]
"""by row and length: the values of all seeds"""


def by_length(table: Table, picture: Picture, path: Path) -> list[tuple[Path, str]]:
    """A line for every row at the mean of its seeds, the range of the seeds as a band.

    Raises:
        TableError: no run has such metrics.
    """
    subset, metric = picture.subset or "", picture.metric or ""
    if not subset:
        tried = [column.metric.rpartition("/")[::2] for column in table.columns]
        subset, metric = next((one for one in reversed(tried) if _values(table, *one)), ("test", "accuracy"))
    rows = _values(table, subset, metric)
    if not rows:
        raise TableError(f"figures: no run has {subset}/length_.../{metric}")
    unit = unit_of(metric)
    label = f"{subset}, {metric.replace('_', ' ')} ({'%' if unit == 'percent' else unit})"
    figure, axes, together = row_panels(list(rows), "length", label)
    for number, (axis, (row, lengths)) in enumerate(zip(axes, rows.items(), strict=True)):
        _line(axis, lengths, number if together else 0, row)
        if unit == "percent":
            axis.set_ylim(-3, 103)
    if together:
        axes[0].legend()
    return [(save(figure, path), f"{table.report.title}: {subset} by length; mean and range over seeds")]


def _values(table: Table, subset: str, metric: str) -> ByLength:
    """A range of lengths stands at its beginning."""
    pattern = re.compile(rf"{re.escape(subset)}/length_(\d+)(?:_\d+)?/{re.escape(metric)}")
    rows: ByLength = {}
    for run in (run for run in table.runs if run.state == "finished"):
        for name, value in run.result.get("metrics", {}).items():
            if found := pattern.fullmatch(name):
                lengths = rows.setdefault(row_name(table.report, run), {})
                lengths.setdefault(int(found[1]), []).append(factor_of(metric) * value)
    return rows


def _line(axis: Axes, lengths: Mapping[int, list[float]], number: int, row: str) -> None:
    look, xs = line_look(number), sorted(lengths)
    axis.plot(xs, [mean(lengths[x]) for x in xs], **look | {"markersize": 3, "label": row})
    lows, highs = [min(lengths[x]) for x in xs], [max(lengths[x]) for x in xs]
    axis.fill_between(xs, lows, highs, color=look["color"], alpha=0.15, linewidth=0)
