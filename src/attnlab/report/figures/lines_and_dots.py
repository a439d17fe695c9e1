"""Figures of lines and dots: metrics over a swept key, over lengths, while training, over seeds."""

import itertools
import statistics
import textwrap
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from attnlab.config.message_text import show
from attnlab.config.validation.report_names import row_name, setting
from attnlab.learn.metric_units import SHARE, label, lower_is_better, problem, scaled, unit_of
from attnlab.plots.style import (
    COLOURS,
    EDGE,
    LINES,
    STRONG,
    empty_panel,
    label_panels,
    legend_below,
    legend_lines,
    line_looks,
    logarithmic,
    panel_columns,
    panels,
)
from attnlab.report.failures.count_failures import times_to_success
from attnlab.report.failures.failure_statistics import Times, kaplan_meier
from attnlab.report.figures.row_pictures import (
    LINES_TOGETHER,
    MEANS_AND_SEEDS,
    Drawn,
    axis_label,
    interest,
    label_counts,
    limits,
    line_panels,
    mark_shortcut,
    marks_note,
    means_and_seeds,
    seeds_in_words,
    shown_column,
    title_panel,
)
from attnlab.report.report_record import Cell, Column
from attnlab.report.statistics.differences import mean
from attnlab.report.statistics.length_breakdown import recorded_lengths
from attnlab.report.table_types import Table, TableError
from attnlab.report.text_tables import success_in_words

ORACLE = "_oracle_end"
"""ends the name of an accuracy whose outputs end where the target does"""
APART = 1.4
"""percent between the lines of one panel, which would hide each other where equally many runs have succeeded"""
LOGARITHMIC = 100.0
"""ratio of the largest to the smallest number beyond which the axis of a curve is logarithmic"""
MOST_PAIRS = 60
"""panels of a picture"""
LETTERS = {1: 40, 2: 18, 3: 9}
"""characters of a row's name in one line below a panel, by the panels beside each other"""
BETTER, WORSE, EQUAL = "right row better", "right row worse", "equal"
PAIRED: Mapping[str, Mapping[str, Any]] = {
    BETTER: {"color": STRONG, "linestyle": "-", "linewidth": 1.8},
    WORSE: {"color": COLOURS[0], "linestyle": LINES[0], "linewidth": 1.8},
    EQUAL: {"color": EDGE, "linestyle": LINES[2], "linewidth": 1.2},
}
ByLength = dict[str, dict[int, list[float]]]
"""by row and length: the values of all seeds"""


def curve(table: Table, key: str) -> Drawn:
    """A panel for each column: means over a swept key, seeds as dots."""
    if key not in table.report.rows:
        raise TableError(f"report.figures: a curve over x={key} needs it among rows ({', '.join(table.report.rows)})")
    # the rows of a line have the same values of all other keys
    lines: dict[str, dict[str, Any]] = defaultdict(dict)
    for run in table.runs:
        others = [show(setting(other, run.config)) for other in table.report.rows if other != key]
        lines[", ".join(others)][row_name(table.report, run.config)] = setting(key, run.config)
    positions = _positions({x for rows in lines.values() for x in rows.values()})
    looks = line_looks(list(lines), next((name for name, rows in lines.items() if table.highlight in rows), None))
    note = marks_note(table, MEANS_AND_SEEDS, "marker: {}")
    named = list(lines) if len(lines) > 1 else []
    figure, axes = panels(len(table.columns), panel_columns(len(table.columns)), 2.4, legend_lines(note, named))
    for axis, column in zip(axes, table.columns, strict=True):
        for name, rows in lines.items():
            cells = {positions[x]: cell for row, x in rows.items() if (cell := table.cells[row].get(column.name))}
            _draw_curve(axis, cells, looks[name] | {"label": name})
        values = [value for cell in table.each(column) for value in cell.values.values()]
        if not values:
            empty_panel(axis, "no run has a number")
        elif column.unit != SHARE.name and 0 < LOGARITHMIC * min(values) < max(values):
            logarithmic(axis)
        mark_shortcut(axis, table, column)
        axis.set_xticks(list(positions.values()), [show(x) for x in positions], fontsize=8)
        axis.set(title=column.name, xlabel=key, ylabel=axis_label(column))
    legend_below(figure, note, handles=None if named else ())
    return figure, f"over {key}; {note}"


def _positions(values: set[Any]) -> dict[Any, float]:
    """The position of each value on the x axis: numbers with even steps at their value, others one apart."""
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    ordered = sorted(values) if numbers else sorted(values, key=str)
    steps = {round(high - low, 9) for low, high in itertools.pairwise(ordered)} if numbers else ()
    return {value: float(value if len(steps) == 1 else rank) for rank, value in enumerate(ordered)}


def _draw_curve(axis: Axes, cells: Mapping[float, Cell], look: Mapping[str, Any]) -> None:
    """One line: means, seeds, and published values as short lines."""
    means_and_seeds(axis, cells.items(), look)
    published = {x: cell.published_number for x, cell in cells.items() if cell.published_number is not None}
    mark: Any = {"color": COLOURS[3], "markersize": 16, "markeredgewidth": 2.4, "zorder": 4}
    axis.plot(list(published), list(published.values()), "_", **mark)


def by_length(table: Table, subset: str | None, metric: str) -> Drawn:
    """A panel for every row: the mean of its seeds with their range as a band, the oracle rule dashed."""
    if not subset:
        tried = [column.metric.rpartition("/")[::2] for column in reversed(table.columns)]
        subset, metric = next((pair for pair in tried if values_by_length(table, *pair)[0]), ("test", "accuracy"))
    metric = metric.removesuffix(ORACLE)
    (rows, left_out), (oracle, _) = (values_by_length(table, subset, name) for name in (metric, metric + ORACLE))
    if not rows and not oracle:
        raise TableError(f"figures: no run has {subset}/length_.../{metric}")
    unit = unit_of(metric).name
    names: dict[Any, str] = {"-": metric.replace("_", " ")} if rows else {}
    names |= {LINES[0]: "with the end given by an oracle"} if oracle else {}
    each = [values for lengths in (*rows.values(), *oracle.values()) for values in lengths.values()]
    columns, counts = panel_columns(len(table.cells)), list(map(len, each))
    note = f"line: mean of {seeds_in_words(counts)}, band: lowest to highest" if max(counts) > 1 else "line: one seed"
    note += interest(table)
    lines = legend_lines(note, list(names.values()))
    figure, axes = panels(len(table.cells), columns, 2.3, lines, sharey=True, sharex=True)
    for axis, (row, look) in zip(axes, line_looks(list(table.cells), table.highlight).items(), strict=True):
        title_panel(axis, row, columns, row == table.highlight)
        axis.tick_params(labelbottom=True)
        if row not in rows and row not in oracle:
            empty_panel(axis, f"no finished run has {subset} by length")
        else:
            _draw_lengths(axis, rows.get(row, {}), look | {"linestyle": "-"})
            _draw_lengths(axis, oracle.get(row, {}), look | {"linestyle": LINES[0], "markerfacecolor": "white"})
    label_counts(axes[-columns:], "length")
    if unit == SHARE.name:
        axes[0].set_ylim(min([0.0, *(value for values in each for value in values)]) - 3, 103)
    label_panels(figure, f"{subset} ({SHARE.sign if unit == SHARE.name else unit})")
    legend_below(figure, note, handles=[Line2D([], [], color="black", linestyle=k, label=v) for k, v in names.items()])
    lost = f". Left out: {left_out} values that are none" if left_out else ""
    return figure, f"{subset} by length; {note}{lost}"


def values_by_length(table: Table, subset: str, metric: str) -> tuple[ByLength, int]:
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


def _draw_lengths(axis: Axes, lengths: Mapping[int, list[float]], look: dict[str, Any]) -> None:
    xs = sorted(lengths)
    axis.plot(xs, [mean(lengths[x]) for x in xs], **look)
    lows, highs = [min(lengths[x]) for x in xs], [max(lengths[x]) for x in xs]
    axis.fill_between(xs, lows, highs, color=look["color"], alpha=0.2, linewidth=0)


def training(table: Table, metric: str) -> Drawn:
    """A metric of metrics.csv over steps: each seed as a thin line, the median of the seeds as a thick one."""
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
        runs = rows[row]
        steps = sorted(set.intersection(*(set(points) for points in runs)))
        for points in runs if len(runs) > 1 else ():
            thin = {"linewidth": 0.5, "linestyle": "-", "label": None, "marker": None, "alpha": 0.7}
            axis.plot(list(points), list(points.values()), **look | thin)
        # a line of one point is invisible without its marker
        marked = look | {"markevery": max(1, len(steps) // 8)}
        axis.plot(steps, [statistics.median(points[step] for points in runs) for step in steps], **marked)
    label_counts(lowest, "optimiser step")
    label_panels(figure, label(metric, unit_of(metric).name))
    for axis in {line.axis: None for line in lines} if metric.endswith("loss") else ():
        logarithmic(axis)
    legend_below(figure, note, handles=None if 1 < len(rows) <= LINES_TOGETHER else ())
    note += f"; {left_out} logged values that no picture can hold are left out" if left_out else ""
    return figure, f"{metric} while training; {note}"


def time_to_success(table: Table) -> Drawn:
    """The share of each row's runs that have reached the threshold, over steps: 1 - Kaplan and Meier's estimate, with a
    tick at the end of each run without success."""
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
        _draw_times(axis, rows[row], end, shift, look)
    label_counts(lowest, "optimiser step")
    lines[0].axis.set(xlim=(0, 1.02 * end), ylim=(-6, 106))
    label_panels(figure, "runs (%)")
    legend_below(figure, note, handles=None if together else ())
    return figure, f"time to {reached}; {note}"


def _draw_times(axis: Axes, times: Times, end: float, shift: float, look: dict[str, Any]) -> None:
    """The curve of one row, from step 0 to the end of its runs; to the end of all rows if all its runs succeeded."""
    changes = [(0.0, shift), *((time, 100 * (1 - share) + shift) for time, share in kaplan_meier(times))]
    points = [*changes, (times.end if times.censored else end, changes[-1][1])]
    axis.step(*zip(*points, strict=True), where="post", **look | {"marker": None})
    ends = [(end, max(share for time, share in points if time <= end)) for end in times.censored]
    if ends:
        tick = {"marker": "|", "linestyle": "", "markersize": 11, "markeredgewidth": 1.4, "label": None}
        axis.plot(*zip(*ends, strict=True), **look | tick)


class Pair(NamedTuple):
    """The cells of two rows in a column: the base at the left, None where it has no runs, and the row at the right."""

    column: Column
    rows: tuple[str, str]
    cells: tuple[Cell | None, Cell | None]

    @property
    def values(self) -> tuple[dict[int, float], dict[int, float]]:
        """The numbers of both rows by seed."""
        left, right = (cell.values if cell else {} for cell in self.cells)
        return left, right

    @property
    def seeds(self) -> dict[int, str]:
        """The label of the line of each seed with a number in both rows."""
        left, right = self.values
        sign = -1 if lower_is_better(self.column.metric) else 1
        gains = {seed: sign * (right[seed] - left[seed]) for seed in left if seed in right}
        return {seed: EQUAL if not gain else BETTER if gain > 0 else WORSE for seed, gain in gains.items()}


def pairs(table: Table, metric: str | None) -> Drawn:
    """A panel for each pair of rows, with a line between the numbers of each common seed: the rows of the hypotheses;
    without any, or with a metric, every row beside the first one of its task."""
    claims = table.report.hypotheses
    compared = [(claim.column, claim.than, claim.row) for claim in claims if claim.column and claim.than]
    if metric is not None or not compared:
        known = [column for column in table.columns if any(cell.values for cell in table.each(column))]
        name = shown_column(metric, known).name if known else ""
        compared = [(name, pair.against, pair.row) for pair in table.comparisons() if pair.column == name]
    columns = {column.name: column for column in table.columns}
    shown = [
        Pair(columns[name], (base, row), (table.cells.get(base, {}).get(name), table.cells.get(row, {}).get(name)))
        for name, base, row in dict.fromkeys(compared)
    ]
    if not any(pair.seeds for pair in shown):
        raise TableError("no two rows have a seed in common")
    if len(shown) > MOST_PAIRS:
        raise TableError(f"{len(shown)} pairs of rows, and a picture has at most {MOST_PAIRS}; name fewer runs or rows")
    kinds = [kind for kind in PAIRED if any(kind in pair.seeds.values() for pair in shown)]
    alone = any(values.keys() - pair.seeds.keys() for pair in shown for values in pair.values)
    note = "line: the same seed in both rows" + (", open dot: a seed that the other row lacks" if alone else "")
    letters = LETTERS[panel_columns(len(shown))]
    figure, axes = panels(len(shown), panel_columns(len(shown)), 2.3, legend_lines(note, kinds, 3))
    for axis, pair in zip(axes, shown, strict=True):
        _draw_pair(axis, pair, letters)
        # panels of one column have one scale
        column_values = [values for other in shown if other.column == pair.column for values in other.values]
        if numbers := [value for values in column_values for value in values.values()]:
            axis.set_ylim(limits(numbers, pair.column))
    handles = [axes[0].plot([], [], **PAIRED[kind], label=kind)[0] for kind in kinds]
    legend_below(figure, note, 3, handles)
    return figure, f"paired seeds; {note}"


def _draw_pair(axis: Axes, pair: Pair, letters: int) -> None:
    """One panel, with the common seeds that are better in the right row, and the diverged runs, in its title."""
    kinds = list(pair.seeds.values())
    lost = sum(seed.diverged for cell in pair.cells if cell for seed in cell.seeds)
    counts = [f"{kinds.count(BETTER)} of {len(kinds)} better"] if kinds else []
    counts += [f"{lost} diverged"] if lost else []
    title = pair.column.name + (": " + "\n".join(counts) if counts else "")
    axis.set(title=title, xlim=(-0.4, 1.4), ylabel=axis_label(pair.column))
    if not kinds:
        cells = zip(pair.rows, pair.cells, strict=True)
        without = [f"{row}: {cell.states if cell else 'no run'}" for row, cell in cells if not (cell and cell.values)]
        empty_panel(axis, "; ".join(without) or "no seed in common")
    # long names are broken at underscores where they can be
    broken = [textwrap.fill(row.replace("_", "_ "), letters).replace("_ ", "_") for row in pair.rows]
    names = [row if len(row) <= letters else text for row, text in zip(pair.rows, broken, strict=True)]
    axis.set_xticks((0, 1), names)
    for seed, kind in pair.seeds.items():
        axis.plot((0, 1), [values[seed] for values in pair.values], marker="o", markersize=4, **PAIRED[kind])
    for x, values in enumerate(pair.values):
        rest = [value for seed, value in values.items() if seed not in pair.seeds]
        axis.plot([x] * len(rest), rest, "o", markersize=5, markerfacecolor="white", markeredgecolor=EDGE)
