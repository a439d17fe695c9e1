"""Figure of hypotheses (a forest plot): each with its difference, corrected interval, claimed range and verdict, beside
the published effect, the difference of the published numbers of both rows.
"""

import math
import textwrap
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from attnlab.config.report_block import Hypothesis, Picture
from attnlab.learn.metric_units import SHARE
from attnlab.plots.style import COLOURS, EDGE, LINES, PALE, STRONG, legend_below
from attnlab.report.analysis_record import HypothesisAnswer
from attnlab.report.declarations.claimed_ranges import REFUTED, SUPPORTED, UNDECIDED, ClaimedRange, claimed_range
from attnlab.report.figures.row_pictures import finished, name_rows, reason, row_panels
from attnlab.report.table_types import Drawn, Table, TableError

VERDICT_LOOKS: dict[str, dict[str, Any]] = {
    SUPPORTED: {"marker": "o", "color": STRONG},
    REFUTED: {"marker": "X", "color": "black"},
    UNDECIDED: {"marker": "o", "color": EDGE, "markerfacecolor": "white"},
}
INTERVAL: dict[str, Any] = {"linestyle": "-", "label": "corrected 95 % interval"}
RANGE: dict[str, Any] = {"linestyle": LINES[2], "label": "range of fewer than 5 seeds"}
CLAIMED: dict[str, Any] = {"facecolor": PALE, "label": "claimed differences"}
PUBLISHED: dict[str, Any] = {"color": COLOURS[3], "linewidth": 2.4, "label": "published difference"}
MARGIN = 0.06
"""share of an axis beyond its numbers"""
LONGEST_REASON = 46
"""characters in a line of the words where there is no difference"""


class Line(NamedTuple):
    """A hypothesis as it is drawn.

    unit:      of its column.
    claimed:   the range of differences; None for a hypothesis on failures.
    published: the published effect; None where a row has no published number.
    """

    answer: HypothesisAnswer
    unit: str
    claimed: ClaimedRange | None
    published: float | None

    @property
    def numbers(self) -> list[float]:
        """All numbers that the line shows."""
        ends = (self.claimed.low, self.claimed.high) if self.claimed else ()
        shown = (self.answer.difference, self.answer.low, self.answer.high, self.published, *ends)
        return [value for value in shown if value is not None and math.isfinite(value)]

    @property
    def interval(self) -> dict[str, Any]:
        """The look of the line between the ends: without a test they are the range of a few seeds."""
        return RANGE if self.answer.p is None and self.answer.low != self.answer.high else INTERVAL


def forest(table: Table, picture: Picture, path: Path) -> Drawn:
    """Draws a line for each hypothesis, in a panel for each unit, with the verdicts at the right.

    Raises:
        TableError: there is no hypothesis, none has a number, or there are too many.
    """
    claims = table.report.hypotheses
    lines = {answer.words: _line(table, claim, answer) for claim, answer in zip(claims, table.answers, strict=True)}
    if not lines:
        raise TableError("the experiment declares no hypothesis")
    units = list(dict.fromkeys(line.unit for line in lines.values() if line.answer.difference is not None))
    if not units:
        raise TableError("no hypothesis has a difference to draw (ranks and failures have none)")
    handles = _handles(lines.values())
    note = (
        "difference over common seeds; supported: its interval lies in the claimed differences, refuted: outside; "
        "undecided also where the answer says why there is no verdict"
    )
    figure, axes, names = row_panels(list(lines), len(units), note, [str(handle.get_label()) for handle in handles])
    for axis, unit in zip(axes, units, strict=True):
        _panel(axis, lines.values(), unit)
        name_rows(axis, names)
        axis.set_xlabel("difference (percentage points)" if unit == SHARE.name else f"difference ({unit})")
    right: Any = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 8}
    for y, verdict in enumerate(line.answer.verdict for line in lines.values()):
        axes[-1].annotate(f" {verdict}", (1, y), fontweight="normal" if verdict == UNDECIDED else "bold", **right)
    legend_below(figure, note, 2, handles)
    return finished(figure, path, table, f"declared hypotheses with their intervals; {note}")


def _line(table: Table, claim: Hypothesis, answer: HypothesisAnswer) -> Line:
    """A hypothesis with its published effect."""
    column = next(column for column in table.columns if column.name == answer.column)
    if claim.fails_less_than:
        return Line(answer, column.unit, None, None)
    cells = [table.cells.get(row, {}).get(column.name) for row in (claim.row, claim.other)]
    ours, theirs = (cell.published_number if cell else None for cell in cells)
    published = None if ours is None or theirs is None else ours - theirs
    return Line(answer, column.unit, claimed_range(claim, column.metric), published)


def _handles(lines: Collection[Line]) -> list[Any]:
    """The entries of the legend: marks that the picture has."""
    drawn = [line for line in lines if line.answer.difference is not None]
    tested = any(line.answer.p is not None for line in drawn)
    looks = [INTERVAL] if tested else []
    looks += [RANGE] if any(line.interval is RANGE for line in drawn) else []
    marks: list[Any] = [*(Line2D([], [], color="black", **look) for look in looks), Patch(**CLAIMED)]
    return [*marks, Line2D([], [], **PUBLISHED)] if any(line.published is not None for line in lines) else marks


def _panel(axis: Axes, lines: Collection[Line], unit: str) -> None:
    """The lines of one unit; of the others nothing, or why they have no difference."""
    numbers = [0.0, *(value for line in lines if line.unit == unit for value in line.numbers)]
    margin = MARGIN * (max(numbers) - min(numbers)) or 1.0
    left, right = min(numbers) - margin, max(numbers) + margin
    axis.set_xlim(left, right)
    axis.axvline(0.0, color=EDGE, linewidth=0.8, zorder=1)
    for y, line in enumerate(lines):
        answer = line.answer
        if answer.difference is None or answer.low is None or answer.high is None:
            reason(axis, y, textwrap.fill(answer.reason.partition("; ")[0], LONGEST_REASON))
        elif line.unit == unit:
            if line.claimed:
                low, high = max(line.claimed.low, left), min(line.claimed.high, right)
                axis.barh(y, high - low, left=low, height=0.8, zorder=0, **CLAIMED)
            look = VERDICT_LOOKS[answer.verdict]
            axis.plot((answer.low, answer.high), (y, y), color=look["color"], linewidth=1.6, **line.interval)
            axis.plot([answer.difference], [y], markersize=7, **look)
            if line.published is not None:
                axis.plot([line.published] * 2, [y - 0.4, y + 0.4], solid_capstyle="butt", zorder=3, **PUBLISHED)
