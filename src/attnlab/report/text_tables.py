"""Text of a report: its tables, at a glance and cell by cell, and the parts below them, each under a heading.

Terminal, markdown and the page print the same ones.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product

from attnlab.config.message_text import counted, listed
from attnlab.config.report_block import Success
from attnlab.learn.metric_units import OF_RUNS, SHARE, as_float, label, number, unit_of
from attnlab.report.analysis_record import (
    DATA_SEEDS,
    RowSuccess,
    SpentRuns,
    SuccessReport,
    TestAgainstBase,
)
from attnlab.report.report_record import Cell, ReportFile
from attnlab.report.statistics.differences import NORMAL, p_number

NONE = "-"
FAILED = "failed [95 %]"
"""head of the column of failures in a table of means"""
HYPOTHESES, PROBLEMS = "Hypotheses", "Without a number"
OF_DIFFERENCES = (
    "Paired by seed. From five seeds on with a 95 % t interval and a paired t-test, corrected over all tests of this "
    "table; the range over fewer seeds covers nothing with a known probability. Where runs diverged, ranks decide."
)
OF_DATA_SEEDS = (
    "A mean is over data sets, of the means over the seeds of each; ± is over all runs. Differences are paired by data "
    "seed and seed, and averaged in each data set, so that intervals and tests count data sets."
)
ABOVE = "In percent; the length is of the output, or of the input where there is no output sequence"
FLAT = 1.0
"""points: a column is not broken down where no length is further from the mean of its row"""
COUNTED = (
    "counted: all runs of these models on these tasks in the folder that the report reads, but no run of debug=..."
)


@dataclass(frozen=True)
class TextTable:
    """A table of text.

    words: number of columns of words, from the left; the others hold numbers.
    """

    title: str
    heads: list[str]
    rows: list[list[str]]
    words: int = 1


@dataclass(frozen=True)
class Part:
    """A sentence, then tables, then a list of sentences; left out where nothing but the heading is there."""

    heading: str
    lines: list[str] = field(default_factory=list)
    tables: list[TextTable] = field(default_factory=list)
    about: str = ""


def _number(value: float | None, unit: str, signed: bool = False, like: float | None = None) -> str:
    return NONE if value is None else number(value, unit, signed, like)


def mean_and_sd(cell: Cell) -> str:
    """`46.1 ± 2.3 (5)`; `46.1 (5)` if all seeds have the same number, `(3 of 5)` if some have none; with the length
    that carries the mean."""
    if cell.mean is None:
        return cell.states or "missing"
    unit, total = cell.column.unit, len(cell.seeds)
    text = number(cell.mean, unit) + (f" ± {number(cell.sd, unit, like=cell.mean)}" if cell.sd else "")
    data = f", {cell.data_sets} data seeds" if cell.data_sets > 1 else ""
    part = cell.one_length
    length = f", {number(part.right, SHARE.name)} % of it from {part.named}" if part and part.right is not None else ""
    return f"{text} ({cell.n if cell.n == total else f'{cell.n} of {total}'}{data}){length}"


def each_seed(cell: Cell) -> str:
    """The number of every seed, in the order of the seeds: `44.1, 46.2, 48.0`."""
    return ", ".join(number(value, cell.column.unit) for value in cell.values.values()) or NONE


def published(cell: Cell) -> str:
    """The published value with its spread: `46.9 ± 1.2`."""
    known, unit = cell.published, cell.column.unit
    if known is None or known.value is None:
        return (known and known.text) or NONE
    spread = f" ± {number(known.spread, unit, like=known.value)}" if known.spread is not None else ""
    return f"{number(known.value, unit)}{spread}{f' ({known.text})' if known.text else ''}"


def _difference(cell: Cell) -> str:
    """Our mean minus the published value: `-0.8 (-0.35 sd)`."""
    text = _number(cell.difference, cell.column.unit, signed=True)
    return text if cell.difference_in_sd is None else f"{text} ({number(cell.difference_in_sd, '', signed=True)} sd)"


def failed(row: RowSuccess | None) -> str:
    """Failures of a row's runs with the interval of their share in percent: `3/5 [14.7, 94.7]`."""
    if row is None or row.low is None or row.high is None:
        return NONE
    return f"{row.failed}/{row.n} [{number(row.low, SHARE.name)}, {number(row.high, SHARE.name)}]"


def shortcut_rows(cells: Iterable[Cell]) -> dict[str, dict[str, str]]:
    """Rows of shortcuts (`shortcut: most frequent answer`) that are the best of a cell: text by column.

    The lowest and the highest number, as rows may have different data; one where they are written alike.
    """
    cells = list(cells)
    best = dict.fromkeys(name for cell in cells for name, _ in cell.shortcuts[:1])
    values: dict[str, dict[tuple[str, str], list[float]]] = {name: defaultdict(list) for name in best}
    for name, cell in product(best, cells):
        key = cell.column.name, cell.column.unit
        values[name][key] += [value for other, value in cell.shortcuts if other == name]
    return {
        f"shortcut: {name}": {
            column: " to ".join(dict.fromkeys(number(end, unit) for end in (min(ends), max(ends))))
            for (column, unit), ends in by_column.items()
            if ends
        }
        for name, by_column in values.items()
    }


def glance(report: ReportFile) -> TextTable:
    """Rows by columns, as papers print it, failures last."""

    def ours_and_published(cell: Cell | None) -> str:
        if cell is None:
            return ""
        return mean_and_sd(cell) + (f"; published {published(cell)}" if cell.published is not None else "")

    success, names = report.success, [column.name for column in report.columns]
    rows = [[row.name, *(ours_and_published(row.cell(name)) for name in names)] for row in report.rows]
    rows = [[*row, failed(success.of(row[0]))] for row in rows] if success else rows
    rows += [
        [name, *(numbers.get(column, "") for column in names), *([NONE] if success else [])]
        for name, numbers in shortcut_rows(report.each()).items()
    ]
    heads = [report.head, *(label(column.name, column.unit) for column in report.columns)]
    return TextTable("At a glance", [*heads, FAILED] if success else heads, rows)


def cell_by_cell(report: ReportFile) -> TextTable:
    """A line for every cell: ours, every seed, the error of the test set if a cell has one and, if anything was
    published, the comparison."""

    def extreme(cell: Cell, end: tuple[int | str, float] | None) -> str:
        return f"{number(end[1], cell.column.unit)} (seed {end[0]})" if end else NONE

    columns: list[tuple[str, Callable[[Cell], str]]] = [
        ("ours ± sd (seeds)", mean_and_sd),
        ("each seed", each_seed),
        ("best", lambda cell: extreme(cell, cell.best)),
        ("worst", lambda cell: extreme(cell, cell.worst)),
    ]
    if any(cell.test_set_error is not None for cell in report.each()):
        columns += [("test set ±", lambda cell: _number(cell.test_set_error, cell.column.unit, like=cell.mean))]
    if any(cell.published for cell in report.each()):
        columns += [("published", published), ("ours - published", _difference)]
    rows = [
        [cell.row, label(cell.column.name, cell.column.unit), *(write(cell) for _, write in columns)]
        for cell in report.each()
    ]
    empty = [NONE] * (len(columns) - 1)
    for name, numbers in shortcut_rows(report.each()).items():
        rows += [[name, label(column, report.units[column]), text, *empty] for column, text in numbers.items()]
    return TextTable(report.title, [report.head, "", *(name for name, _ in columns)], rows, words=2)


def report_parts(report: ReportFile) -> list[Part]:
    """The parts with a content, the answers to hypotheses first."""
    success, differences, (about, by_length) = report.success, difference_tables(report), length_tables(report)
    tested = any(pair.p is not None and pair.difference is not None for pair in report.comparisons)
    answers = report.hypotheses or []
    lines = [f"{answer.verdict}: {answer.words} ({answer.explanation})" for answer in answers]
    # where one was tested, also the assumption behind the test
    lines += [NORMAL] if any(answer.p is not None and answer.low is not None for answer in answers) else []
    parts = [
        Part(HYPOTHESES, lines),
        Part("Failures", success.notes, failure_tables(success)) if success else Part("Failures"),
        Part("Accuracy by length", [], by_length, about),
        Part("Differences over seeds", [NORMAL] if tested else [], differences, OF_DIFFERENCES if differences else ""),
        Part("Data seeds", [], _data_seed_tables(report), OF_DATA_SEEDS if report.data_seeds else ""),
        Part(PROBLEMS, report.problems),
        Part("Notes", report.notes),
        Part("Tuning budget", budget_lines(report.budget or [])),
    ]
    return [part for part in parts if part.lines or part.tables or part.about]


def failure_tables(report: SuccessReport) -> list[TextTable]:
    """Failures of every row, and steps to success where something was validated."""

    def tests(head: str, ours: Sequence[TestAgainstBase | None]) -> list[list[str]]:
        """A column of tests, its head first; none without a test."""
        texts = [f"{p_number(test.p)} ({p_number(test.corrected)})" if test else NONE for test in ours]
        rows = zip(report.rows, texts, strict=True)
        cells = ["base" if text == NONE and row.row == report.against else text for row, text in rows]
        return [[head, *cells]] if any(ours) else []

    names = ["", *(row.row for row in report.rows)]
    failures = [
        names,
        [FAILED, *map(failed, report.rows)],
        *tests("Fisher's p (corrected)", [row.fisher for row in report.rows]),
        ["mean of all", *(_number(row.mean, report.unit) for row in report.rows)],
        ["mean of the successful", *(_number(row.successful_mean, report.unit) for row in report.rows)],
    ]
    side = "above" if report.at_least is None else "below"
    titles = {f"Failures: {report.column} {side} {_threshold(report)}, or diverged": failures}
    if any(row.validated for row in report.rows):
        titles[f"Steps to the first {success_in_words(report)}"] = [
            names,
            ["reached", *(f"{row.reached}/{row.validated}" if row.validated else NONE for row in report.rows)],
            ["median [95 %]", *map(_median, report.rows)],
            *tests("log-rank p (corrected)", [row.log_rank for row in report.rows]),
        ]
    tables = {title: [list(line) for line in zip(*columns, strict=True)] for title, columns in titles.items()}
    return [TextTable(title, heads, rows) for title, (heads, *rows) in tables.items()]


def _median(row: RowSuccess) -> str:
    """The median of the steps to success with its interval: `4,000 [2,000, no end]`."""
    if not row.validated:
        return NONE
    half, low, high = (
        _number(steps, OF_RUNS["state_size"].name) for steps in (row.median, row.median_low, row.median_high)
    )
    ends = f" [{low}, {'no end' if high == NONE else high}]" if row.median_low is not None else ""
    return f"{'not reached' if row.median is None else half}{ends}"


def success_in_words(success: SuccessReport | Success) -> str:
    """The success that times lead to: `val/accuracy of at least 60 %`."""
    return f"{success.validation} of at {'most' if success.at_least is None else 'least'} {_threshold(success)}"


def _threshold(success: SuccessReport | Success) -> str:
    """A threshold with its unit: `60 %`."""
    value = success.at_most if success.at_least is None else success.at_least
    unit = success.unit if isinstance(success, SuccessReport) else unit_of(str(success.validation)).name
    if value is None:
        # only in files of other programs
        return "the threshold"
    return f"{as_float(value):,g} {SHARE.sign if unit == SHARE.name else unit}"


def difference_tables(report: ReportFile) -> list[TextTable]:
    """The differences of rows with intervals, tests and seeds; no table without one."""
    rows = []
    for pair in report.comparisons:
        unit = report.units.get(pair.column, "")
        ends = [_number(end, unit, signed=True) for end in (pair.difference, pair.low, pair.high)]
        p = [NONE if value is None else p_number(value) for value in (pair.p, pair.corrected)]
        seeds = ", ".join(number(value, unit, signed=True) for _, value in pair.seeds) or NONE
        interval = NONE if NONE in ends else f"{ends[1]} to {ends[2]}"
        rows.append([f"{pair.row} - {pair.against}", pair.column, ends[0], interval, *p, seeds, pair.method or NONE])
    each = "each data seed" if any(pair.units == DATA_SEEDS for pair in report.comparisons) else "each seed"
    heads = ["rows", "column", "difference", "from, to", "p", "p corrected", each, "how"]
    return [TextTable("", heads, rows, words=2)] if rows else []


def _data_seed_tables(report: ReportFile) -> list[TextTable]:
    """The means of cells by data seed, and spreads between seeds and between data sets; no table with one data set."""
    rows = []
    for cell in report.data_seeds:
        unit = report.units.get(cell.column, "")
        means = [f"data {each.data_seed}: {number(each.mean, unit)} ({each.n})" for each in cell.means]
        spreads = [_number(value, unit) for value in (cell.within, cell.between, cell.expected)]
        rows.append([cell.row, cell.column, ", ".join(means), *spreads])
    heads = ["row", "column", "mean by data seed (seeds)", "sd between seeds", "sd between data sets"]
    return [TextTable("", [*heads, "expected from seeds alone"], rows, words=3)] if rows else []


def budget_lines(spent: Sequence[SpentRuns]) -> list[str]:
    """A sentence on what is counted, one for each task and model, and one if models of a task were tuned unequally."""
    lines = [COUNTED] if spent else []
    tried: dict[str, dict[str, int]] = defaultdict(dict)
    for cost in spent:
        values = [f"{key}: {count} values" for key, count in cost.values.items()]
        settings = counted(cost.settings, "setting") + (f" ({listed(values, 6)})" if values else "")
        states = listed([f"{count} {state}" for state, count in cost.states.items()])
        untimed = f", without {cost.untimed} whose time is not known" if cost.untimed else ""
        runs = f"{counted(cost.runs, 'run')} ({states}), {cost.hours:.2f} hours of training{untimed}"
        lines.append(f"{cost.model} on {cost.task}: {settings}, {runs}")
        tried[cost.task][cost.model] = cost.settings
    for task, counts in tried.items():
        if len(set(counts.values())) > 1:
            each = listed([f"{model} {count}" for model, count in counts.items()])
            lines.append(f"settings tried on {task} differ between models ({each}): a difference may be due to tuning")
    return lines


def length_tables(report: ReportFile) -> tuple[str, list[TextTable]]:
    """A sentence on the breakdowns, empty without any, and a table for each column and each distribution of lengths.

    Flat ones, in which no length is further than `FLAT` from the mean of its row, stand in the sentence only.
    """
    groups: dict[str, dict[tuple, list[Cell]]] = defaultdict(lambda: defaultdict(list))
    for cell in report.each():
        if cell.by_length and cell.mean is not None:
            places = tuple((part.first, part.last, round(part.share, 6)) for part in cell.by_length)
            groups[cell.column.name][places].append(cell)
    flat, tables = [], []
    for column, cells in ((column, cells) for column, of_column in groups.items() for cells in of_column.values()):
        parts = cells[0].by_length or []
        lines = [[cell.mean or 0.0, *(part.mean for part in cell.by_length or ())] for cell in cells]
        if all(abs(as_float(value) - as_float(line[0])) <= FLAT for line in lines for value in line):
            of_rows = (
                f" of {listed([cell.row for cell in cells], 8, separator='; ')}" if len(groups[column]) > 1 else ""
            )
            flat.append(f"{column}{of_rows}")
            continue
        names = ["share of the test set", *(cell.row for cell in cells)]
        table = zip(names, [[100.0, *(part.share for part in parts)], *lines], strict=True)
        texts = [[name, *(number(value, SHARE.name) for value in values)] for name, values in table]
        tables.append(TextTable(f"{column} by length", [column, "all", *(part.name for part in parts)], texts))
    flat_columns = f" {listed(flat)}: no length is more than {FLAT:.0f} point from the mean." if flat else ""
    return f"{ABOVE}.{flat_columns}" if groups else "", tables
