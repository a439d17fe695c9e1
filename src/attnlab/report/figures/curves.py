"""Figures with a line for each row: accuracy by length, a logged metric while training, times to success."""

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from attnlab.config.report_block import Picture
from attnlab.config.validation.report_names import row_name
from attnlab.learn.metric_units import SHARE, label, problem, scaled, unit_of
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
from attnlab.report.failures.count_failures import times_to_success
from attnlab.report.failures.failure_statistics import Times, kaplan_meier
from attnlab.report.failures.failure_tables import success_in_words
from attnlab.report.figures.row_pictures import (
    LINES_TOGETHER,
    finished,
    interest,
    label_steps,
    line_panels,
    seeds_in_words,
)
from attnlab.report.statistics.differences import mean
from attnlab.report.statistics.length_breakdown import recorded_lengths
from attnlab.report.table_types import Drawn, Table, TableError

ORACLE = "_oracle_end"
"""ends the name of an accuracy whose outputs end where the target does"""
APART = 1.4
"""percent between the lines of one panel, which would hide each other where equally many runs have succeeded"""
ByLength = dict[str, dict[int, list[float]]]
"""by row and length: the values of all seeds"""


def by_length(table: Table, picture: Picture, path: Path) -> Drawn:
    """Draws a panel for every row: the mean of its seeds with their range as a band, the oracle rule dashed.

    Raises:
        TableError: no run has metrics by length.
    """
    subset, metric = picture.subset or "", picture.metric or ""
    if not subset:
        tried = [column.metric.rpartition("/")[::2] for column in reversed(table.columns)]
        subset, metric = next((pair for pair in tried if _values(table, *pair)[0]), ("test", "accuracy"))
    metric = metric.removesuffix(ORACLE)
    (rows, left_out), (oracle, _) = (_values(table, subset, name) for name in (metric, metric + ORACLE))
    if not rows and not oracle:
        raise TableError(f"figures: no run has {subset}/length_.../{metric}")
    unit = unit_of(metric)
    names: dict[Any, str] = {"-": metric.replace("_", " ")} if rows else {}
    names |= {LINES[0]: "with the end given by an oracle"} if oracle else {}
    each = [values for lengths in (*rows.values(), *oracle.values()) for values in lengths.values()]
    columns, counts = beside(len(table.cells)), list(map(len, each))
    note = f"line: mean of {seeds_in_words(counts)}, band: lowest to highest" if max(counts) > 1 else "line: one seed"
    note += interest(table)
    lines = legend_lines(note, list(names.values()))
    figure, axes = panels(len(table.cells), columns, 2.3, lines, sharey=True, sharex=True)
    for axis, (row, look) in zip(axes, line_looks(list(table.cells), table.highlight).items(), strict=True):
        axis.set_title(panel_title(row, columns), fontweight="bold" if row == table.highlight else "normal")
        axis.tick_params(labelbottom=True)
        if row not in rows and row not in oracle:
            empty_panel(axis, f"no finished run has {subset} by length")
        else:
            _length_line(axis, rows.get(row, {}), look | {"linestyle": "-"})
            _length_line(axis, oracle.get(row, {}), look | {"linestyle": LINES[0], "markerfacecolor": "white"})
    for axis in axes[-columns:]:
        axis.set_xlabel("length")
    if unit.name == SHARE.name:
        axes[0].set_ylim(min([0.0, *(value for values in each for value in values)]) - 3, 103)
    label_panels(figure, f"{subset} ({SHARE.sign if unit.name == SHARE.name else unit.name})")
    handles = [Line2D([], [], color="black", linestyle=style, label=name) for style, name in names.items()]
    legend_below(figure, note, handles=handles)
    lacking = f". Left out: {left_out} values that are none" if left_out else ""
    return finished(figure, path, table, f"{subset} by length; {note}{lacking}")


def _values(table: Table, subset: str, metric: str) -> tuple[ByLength, int]:
    """The values that can be drawn, and the number of others; a range of lengths is drawn at its beginning."""
    rows: ByLength = defaultdict(lambda: defaultdict(list))
    left_out = 0
    for run in table.finished():
        for first, _, _, value in recorded_lengths(run, f"{subset}/{metric}"):
            if problem(metric, value):
                left_out += 1
            else:
                rows[row_name(table.report, run.config)][first].append(scaled(metric, value))
    return rows, left_out


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
    unit = unit_of(metric).name
    rows: dict[str, list[dict[int, float]]] = defaultdict(list)
    left_out = 0
    for run in table.finished():
        logged = run.logged((metric,))
        points = {step: scaled(metric, value) for step, _, value in logged if not problem(metric, value)}
        left_out += len(logged) - len(points)
        if points:
            rows[row_name(table.report, run.config)].append(points)
    if not rows:
        raise TableError(f"figures: no run has logged {metric}")
    seeds = seeds_in_words(list(map(len, rows.values())))
    note = f"line: median of {seeds}, thin lines: every seed" if seeds != "one seed" else f"line: {seeds}"
    note += interest(table) if table.highlight in rows else ""
    figure, lowest, lines = line_panels(table, {row: row for row in rows}, note, (2.9, 2.0), named=len(rows) > 1)
    for row, axis, _, look in lines:
        _training_lines(axis, rows[row], look)
    label_steps(lowest)
    label_panels(figure, label(metric, unit))
    for axis in {line.axis: None for line in lines} if metric.endswith("loss") else ():
        logarithmic(axis)
    legend_below(figure, note, handles=None if 1 < len(rows) <= LINES_TOGETHER else ())
    note += f"; {left_out} logged values that no picture can hold are left out" if left_out else ""
    return finished(figure, path, table, f"{metric} while training; {note}")


def _training_lines(axis: Axes, runs: Sequence[Mapping[int, float]], look: dict[str, Any]) -> None:
    steps = sorted(set.intersection(*(set(points) for points in runs)))
    for points in runs if len(runs) > 1 else ():
        thin = {"linewidth": 0.5, "linestyle": "-", "label": None, "marker": None, "alpha": 0.7}
        axis.plot(list(points), list(points.values()), **look | thin)
    # a line of one point is invisible without its marker
    look |= {"markevery": max(1, len(steps) // 8)}
    axis.plot(steps, [statistics.median(points[step] for points in runs) for step in steps], **look)


def time_to_success(table: Table, picture: Picture, path: Path) -> Drawn:
    """Draws the share of each row's runs that have reached the threshold, over steps: 1 - Kaplan and Meier's estimate,
    with a tick at the end of each run without success.

    Raises:
        TableError: the experiment declares no success or no validation, or no run has logged it.
    """
    success = table.report.success
    if success is None or success.validation is None:
        raise TableError(f"the experiment has no report.success{'' if success is None else '.validation'}")
    rows = times_to_success(table, success)
    if not rows:
        raise TableError(f"no run has logged {success.validation}")
    together, reached = len(rows) <= LINES_TOGETHER, success_in_words(success)
    note = f"line: runs that have reached {reached} (1 - Kaplan-Meier)"
    note += ", tick: end of a run that has not" if any(times.censored for times in rows.values()) else ""
    note += ", lines drawn a little apart" if together and len(rows) > 1 else ""
    note += interest(table) if table.highlight in rows else ""
    labels = {row: f"{row}: {len(times.events)} of {len(times)}" for row, times in rows.items()}
    end = max(times.end for times in rows.values())
    figure, lowest, lines = line_panels(table, labels, note, (2.7, 1.7))
    for row, axis, at, look in lines:
        shift = APART * ((len(rows) - 1) / 2 - at) if together else 0.0
        _success_line(axis, rows[row], end, shift, look)
    label_steps(lowest)
    lines[0].axis.set(xlim=(0, 1.02 * end), ylim=(-6, 106))
    label_panels(figure, "runs (%)")
    legend_below(figure, note, handles=None if together else ())
    return finished(figure, path, table, f"time to {reached}; {note}")


def _success_line(axis: Axes, times: Times, end: float, shift: float, look: dict[str, Any]) -> None:
    """The curve of one row, from step 0 to the end of its runs; to the end of all rows if all its runs succeeded."""
    changes = [(0.0, shift), *((time, 100 * (1 - share) + shift) for time, share in kaplan_meier(times))]
    points = [*changes, (times.end if times.censored else end, changes[-1][1])]
    axis.step(*zip(*points, strict=True), where="post", **look | {"marker": None})
    ends = [(end, max(share for time, share in points if time <= end)) for end in times.censored]
    if ends:
        tick = {"marker": "|", "linestyle": "", "markersize": 11, "markeredgewidth": 1.4, "label": None}
        axis.plot(*zip(*ends, strict=True), **look | tick)
