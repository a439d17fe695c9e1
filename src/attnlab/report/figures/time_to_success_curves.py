"""Figure of times to success: the share of each row's runs that have reached the threshold, over steps."""

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from attnlab.config.report_block import Picture
from attnlab.plots.style import beside, label_panels, legend_below, legend_lines, line_looks, panel_title, panels
from attnlab.report.failures.count_failures import times_to_success
from attnlab.report.failures.failure_tables import steps, success_in_words
from attnlab.report.failures.time_to_success import Times, kaplan_meier, median
from attnlab.report.figures.finished_picture import finished, interest
from attnlab.report.figures.length_and_training_curves import LINES_TOGETHER
from attnlab.report.table_types import Drawn, Table, TableError

MOST_NAMED = 4
"""rows that a caption names"""
APART = 1.4
"""percent between the lines of one panel, which would hide each other where equally many runs have succeeded"""


def time_to_success(table: Table, picture: Picture, path: Path) -> Drawn:
    """Draws 1 - Kaplan and Meier's estimate of every row, with a tick at the end of each run without success.

    Raises:
        TableError: the experiment declares no success or no validation, or no run has logged it.
    """
    success = table.report.success
    if success is None or success.validation is None:
        raise TableError(f"the experiment has no report.success{'' if success is None else '.validation'}")
    rows = times_to_success(table, success)
    if not rows:
        raise TableError(f"no run has logged {success.validation}")
    together = len(rows) <= LINES_TOGETHER
    number_of, columns = (1, 1) if together else (len(rows), beside(len(rows)))
    labels = {row: f"{row}: {len(times.events)} of {len(times)}" for row, times in rows.items()}
    reached = success_in_words(success)
    note = f"line: runs that have reached {reached} (1 - Kaplan-Meier)"
    note += ", tick: end of a run that has not" if any(times.censored for times in rows.values()) else ""
    note += ", lines drawn a little apart" if together and len(rows) > 1 else ""
    note += interest(table) if table.highlight in rows else ""
    named = list(labels.values()) if together else []
    height, lines = 2.7 if together else 1.7, legend_lines(note, named)
    end = max(times.end for times in rows.values())
    figure, axes = panels(number_of, columns, height, lines, sharey=True, sharex=True)
    for at, (row, look) in enumerate(line_looks(list(rows), table.highlight).items()):
        axis = axes[0 if together else at]
        axis.set(title="" if together else panel_title(labels[row], columns))
        shift = APART * ((len(rows) - 1) / 2 - at) if together else 0.0
        _line(axis, rows[row], end, shift, look | {"label": labels[row]} | ({} if together else {"linestyle": "-"}))
    for axis in axes[-columns:]:
        axis.set_xlabel("optimiser step")
        axis.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 2.5, 5, 10]))
        axis.tick_params(labelbottom=True)
    axes[0].set(xlim=(0, 1.02 * end), ylim=(-6, 106))
    label_panels(figure, "runs (%)")
    legend_below(figure, note, handles=None if named else ())
    return finished(figure, path, table, [f"time to {reached}; {note}", _halves(rows)])


def _line(axis: Axes, times: Times, end: float, shift: float, look: dict[str, Any]) -> None:
    """The curve of one row, from step 0 to the end of its runs; to the end of all rows if all its runs succeeded."""
    changes = [(0.0, shift), *((time, 100 * (1 - share) + shift) for time, share in kaplan_meier(times))]
    points = [*changes, (times.end if times.censored else end, changes[-1][1])]
    axis.step(*zip(*points, strict=True), where="post", **look | {"marker": None})
    ends = [(end, max(share for time, share in points if time <= end)) for end in times.censored]
    if ends:
        tick = {"marker": "|", "linestyle": "", "markersize": 11, "markeredgewidth": 1.4, "label": None}
        axis.plot(*zip(*ends, strict=True), **look | tick)


def _halves(rows: dict[str, Times]) -> str:
    """The step at which half of each row's runs have reached the threshold, in words."""
    found = []
    for row, times in list(rows.items())[:MOST_NAMED]:
        half = median(times)
        found.append(f"{row} {'never' if half is None else f'at step {steps(half)}'}")
    return f"Half of the runs have reached it: {'; '.join(found)}"
