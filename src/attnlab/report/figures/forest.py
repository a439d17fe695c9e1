"""Forest plots of hypotheses: difference, corrected interval and verdict, of one table or of several reports."""

import textwrap
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import NullFormatter

from attnlab.learn.metric_units import SHARE, number
from attnlab.plots.style import COLOURS, EDGE, LINES, PALE, STRONG, legend_below, legend_lines, panels
from attnlab.report.analysis_record import HypothesisAnswer
from attnlab.report.figures.row_pictures import MOST_ROWS, Drawn, reason, row_panels
from attnlab.report.report_record import ReportFile
from attnlab.report.statistics.differences import REFUTED, SUPPORTED, UNDECIDED
from attnlab.report.table_types import Table, TableError

MARGIN = 0.06
"""share of an axis of differences beyond its numbers"""
LONGEST_REASON = 46
"""characters in a line of the words where there is no difference"""
VERDICTS: dict[str, dict[str, Any]] = {
    SUPPORTED: {"marker": "o", "color": STRONG},
    REFUTED: {"marker": "X", "color": "black"},
    UNDECIDED: {"marker": "o", "color": EDGE, "markerfacecolor": "white"},
}
INTERVAL: dict[str, Any] = {"linestyle": "-", "label": "corrected 95 % interval"}
RANGE: dict[str, Any] = {"linestyle": LINES[2], "label": "range of fewer than 5 seeds"}
CLAIMED: dict[str, Any] = {"facecolor": PALE, "label": "claimed differences"}
PUBLISHED: dict[str, Any] = {"color": COLOURS[3], "linewidth": 2.4, "label": "published difference"}
WITHOUT_DIFFERENCE = {
    "fails less than": "failures",
    "succeeds sooner than": "steps to success",
    "varies less than": "standard deviation",
}
"""what a claim compares in place of a difference, by its words"""
NOTE = (
    "difference between runs of the same seed; supported: its interval lies in the claimed differences, refuted: "
    "outside, undecided: otherwise"
)
LINEAR, MOST_LINEAR = 10.0, 30.0
"""percentage points: with more than the second number, the axis of several reports is logarithmic beyond the first"""
TICKS = (-100, -10, 0, 10, 30, 100)
SHORT_TICKS = [sign * tick for sign in (-1, 1) for tick in range(20, 100, 10)]
"""of the logarithmic parts, without numbers"""
NAME_LETTERS, REASON_LETTERS = 34, 30
"""in a line at the left and at the right of that axis"""
LINE_INCHES = 0.145


class ForestLine(NamedTuple):
    """A hypothesis as it is drawn: its answer and the unit of its column."""

    answer: HypothesisAnswer
    unit: str

    @property
    def name(self) -> str:
        """The difference in words, and the claimed range unless it is above 0: `linear_l2 - linear, ood`."""
        answer, low, high = self.answer, *(self.answer.claimed or (0.0, None))
        for phrase, quantity in WITHOUT_DIFFERENCE.items():
            if phrase in answer.claim:
                return f"{quantity} of {answer.row}, of {answer.than}"
        words = f"{answer.row} \N{MINUS SIGN} {answer.than}, {answer.column}"
        words += f", {answer.statistic}" if answer.statistic else ""
        ends = [f"above {low:g}"] if low else []
        ends += [f"below {high:g}"] if high is not None else []
        return f"{words}, claimed {' and '.join(ends)}" if ends else words

    @property
    def marks(self) -> tuple[float, float, float] | None:
        """The difference and the ends around it; None without a difference."""
        answer = self.answer
        if answer.difference is None or answer.low is None or answer.high is None:
            return None
        return answer.difference, answer.low, answer.high


def lines_of(report: ReportFile) -> list[ForestLine]:
    """The hypotheses of a report."""
    return [ForestLine(answer, report.units.get(answer.column, "")) for answer in report.hypotheses or ()]


def forest(table: Table) -> Drawn:
    """A line for each hypothesis: difference, corrected interval, claimed range, published difference and verdict."""
    units = {column.name: column.unit for column in table.columns}
    lines = {answer.words: ForestLine(answer, units[answer.column]) for answer in table.answers}
    if not lines:
        raise TableError("the experiment declares no hypothesis")
    shown = [line for line in lines.values() if line.marks]
    if not shown:
        raise TableError("no hypothesis has a difference to draw (ranks, failures, steps and spreads have none)")
    handles = _handles(shown, Patch(**CLAIMED))
    drawn = list(dict.fromkeys(line.unit for line in shown))
    figure, axes = row_panels(list(lines), len(drawn), NOTE, [str(handle.get_label()) for handle in handles])
    for axis, unit in zip(axes, drawn, strict=True):
        _draw_unit(axis, lines.values(), unit)
        axis.set_xlabel("difference (percentage points)" if unit == SHARE.name else f"difference ({unit})")
    right: Any = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 8}
    for y, verdict in enumerate(line.answer.verdict for line in lines.values()):
        axes[-1].annotate(f" {verdict}", (1, y), fontweight="normal" if verdict == UNDECIDED else "bold", **right)
    legend_below(figure, NOTE, 2, handles)
    return figure, f"declared hypotheses with their intervals; {NOTE}"


def _handles(shown: Collection[ForestLine], *more: Any) -> list[Any]:
    """The entries of the legend for some lines, with more of them in front of the published difference."""
    looks = [INTERVAL] if any(line.answer.p is not None for line in shown) else []
    looks += [RANGE] if any(line.answer.is_range for line in shown) else []
    handles: list[Any] = [*(Line2D([], [], color="black", **look) for look in looks), *more]
    known = any(line.answer.published is not None for line in shown)
    return [*handles, Line2D([], [], **PUBLISHED)] if known else handles


def _draw_unit(axis: Axes, lines: Collection[ForestLine], unit: str) -> None:
    """The hypotheses of one unit; of the others nothing, or why they have no difference."""
    numbers = [0.0]
    for answer in (line.answer for line in lines if line.unit == unit):
        values = (answer.difference, answer.low, answer.high, answer.published, *(answer.claimed or ()))
        numbers += [value for value in values if value is not None]
    margin = MARGIN * (max(numbers) - min(numbers)) or 1.0
    axis.set_xlim(min(numbers) - margin, max(numbers) + margin)
    axis.axvline(0.0, color=EDGE, linewidth=0.8, zorder=1)
    for y, line in enumerate(lines):
        if line.marks is None:
            reason(axis, y, textwrap.fill(line.answer.reason.partition("; ")[0], LONGEST_REASON))
        elif line.unit == unit:
            _draw_claimed(axis, line.answer, y)
            _draw_line(axis, line.answer, line.marks, y)


def _draw_claimed(axis: Axes, answer: HypothesisAnswer, y: float) -> None:
    """The claimed differences as a band, as far as the limits of the axis."""
    if answer.claimed:
        (left, right), (low, high) = axis.get_xlim(), answer.claimed
        low, high = left if low is None else max(low, left), right if high is None else min(high, right)
        axis.barh(y, high - low, left=low, height=0.8, zorder=0, **CLAIMED)


def _draw_line(axis: Axes, answer: HypothesisAnswer, marks: tuple[float, float, float], y: float) -> None:
    """The marks of an answer: difference, ends, published difference."""
    difference, *ends = marks
    # files of other programs have other words
    look = VERDICTS.get(answer.verdict, VERDICTS[UNDECIDED])
    interval = RANGE if answer.is_range else INTERVAL
    axis.plot(ends, (y, y), color=look["color"], linewidth=1.6, marker="|", markersize=8, **interval)
    axis.plot([difference], [y], markersize=6, **look)
    if answer.published is not None:
        axis.plot([answer.published] * 2, [y - 0.4, y + 0.4], solid_capstyle="butt", zorder=3, **PUBLISHED)


def forest_of_reports(groups: Sequence[tuple[str, Sequence[ForestLine]]]) -> Drawn:
    """A line for each hypothesis of several reports below the heading of its group, with its numbers at the right.

    Args:
        groups: headings and their lines.
    """
    lines = [line for _, group in groups for line in group]
    shown = [line for line in lines if line.marks and line.unit == SHARE.name]
    if not shown:
        raise TableError("no hypothesis on percentages has a difference to draw")
    if len(lines) > MOST_ROWS:
        raise TableError(f"{len(lines)} hypotheses, and a picture has at most {MOST_ROWS} rows")
    ends = [end for line in shown for end in (line.answer.low, line.answer.high, line.answer.published) if end]
    scale = f", logarithmic beyond {LINEAR:g}" if any(abs(end) > MOST_LINEAR for end in ends) else ""
    note = (
        f"axis in percentage points{scale}; corrected for the hypotheses of each report; "
        f"failures and other units have no mark; {NOTE}"
    )
    handles = _handles(shown)
    rows = list(_placed(groups))
    height = LINE_INCHES * (rows[-1].y + 1) + 0.5
    figure, (axis,) = panels(1, 1, height, legend_lines(note, [str(handle.get_label()) for handle in handles]))
    left, right = min([-LINEAR, *ends]) * 1.3, max([LINEAR, *ends]) * 1.3
    if scale:
        axis.set_xscale("symlog", linthresh=LINEAR, linscale=0.6)
        axis.set_xticks([tick for tick in TICKS if left <= tick <= right])
        axis.set_xticks([tick for tick in SHORT_TICKS if left <= tick <= right], minor=True)
        axis.xaxis.set_minor_formatter(NullFormatter())
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set(xlim=(left, right), ylim=(rows[-1].y + 1, -1))
    # such a plot is taller than a screen
    axis.tick_params(axis="x", top=True, labeltop=True, labelsize=8)
    axis.spines["top"].set_visible(True)
    axis.axvline(0.0, color=EDGE, linewidth=0.8, zorder=1)
    axis.spines["left"].set_visible(False)
    axis.set_yticks([row.y for row in rows], [row.name for row in rows], fontsize=8)
    axis.tick_params(axis="y", length=0)
    for row, label in zip(rows, axis.get_yticklabels(), strict=True):
        label.set_fontweight("normal" if row.line else "bold")
        if row.line:
            _draw_row(axis, row.line, row.y)
    axis.set_xlabel("difference (percentage points)")
    legend_below(figure, note, 2, handles)
    return figure, f"hypotheses of {len(groups)} reports; {note}"


class PlacedRow(NamedTuple):
    """A heading or a line of a forest plot: its middle in lines of text from the top, and its name, broken."""

    y: float
    name: str
    line: ForestLine | None


def _placed(groups: Sequence[tuple[str, Sequence[ForestLine]]]) -> Iterator[PlacedRow]:
    top = 0.0
    for heading, lines in groups:
        for text, line in [(heading, None), *((line.name, line) for line in lines)]:
            name = textwrap.fill(text, NAME_LETTERS, break_long_words=False)
            height = max(name.count("\n"), numbers_of(line).count("\n") if line else 0) + 1
            yield PlacedRow(top + (height - 1) / 2, name, line)
            top += height + 0.25
        top += 0.5


def numbers_of(line: ForestLine) -> str:
    """The numbers of a line and its verdict, or why it has none."""
    answer = line.answer
    if line.marks is None:
        return textwrap.fill(answer.reason.partition(" (")[0].partition("; ")[0], REASON_LETTERS)
    bounds = [end for end in answer.claimed or () if end is not None]
    center, low, high = (number(value, line.unit, True, bounds=bounds).lstrip("+") for value in line.marks)
    unit = "" if line.unit == SHARE.name else f"\n{line.unit}"
    return f"{center}{unit}" if line.marks[1] == line.marks[2] else f"{center} ({low} to {high}){unit}"


def _draw_row(axis: Axes, line: ForestLine, y: float) -> None:
    """The marks of a line with a difference in percentage points, and at the right its numbers and the verdict."""
    if line.marks and line.unit == SHARE.name:
        _draw_line(axis, line.answer, line.marks, y)
    right: Any = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 8}
    verdict = line.answer.verdict
    weight = "normal" if verdict == UNDECIDED else "bold"
    axis.annotate(textwrap.indent(f"{numbers_of(line)} {verdict}", " "), (1, y), fontweight=weight, **right)
