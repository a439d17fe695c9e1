"""Parts of a report below its main table, each under a heading: terminal, markdown and the page print the same ones."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from attnlab.config.message_text import counted, listed
from attnlab.learn.metric_units import SHARE, as_float, number
from attnlab.report.analysis_record import DATA_SEEDS, HypothesisAnswer, SpentRuns
from attnlab.report.failures.failure_tables import failure_tables
from attnlab.report.report_record import Cell, ReportFile
from attnlab.report.statistics.differences import NORMAL, p_number
from attnlab.report.text_tables import NONE, TextTable

HYPOTHESES, PROBLEMS = "Hypotheses", "Without a number"
OF_DIFFERENCES = (
    "Paired by seed. From five seeds on with a 95 % t interval and a paired t-test, corrected over all tests of this "
    "table; the range over fewer seeds covers nothing with a known probability. Where runs diverged, ranks decide."
)
OF_DATA_SEEDS = (
    "A mean is over data sets, of the means over the seeds of each; ± is over all runs. Differences are paired by data "
    "seed and seed, and averaged in each data set, so that intervals and tests count data sets."
)
ABOVE = "In percent; the length is of the output, or of the input where the answer is a class"
SHARES = "share of the test set"
FLAT = 1.0
"""points: a column is not broken down where no length is further from the mean of its row"""
COUNTED = (
    "counted: all runs of these models on these tasks in the folder that the report reads, but no run of debug=..."
)


@dataclass(frozen=True)
class Part:
    """A sentence, then tables, then a list of sentences; left out where nothing but the heading is there."""

    heading: str
    lines: list[str] = field(default_factory=list)
    tables: list[TextTable] = field(default_factory=list)
    about: str = ""


def report_parts(report: ReportFile) -> list[Part]:
    """The parts with a content, the answers to hypotheses first."""
    success, differences, (about, by_length) = report.success, difference_tables(report), length_tables(report)
    tested = any(pair.p is not None and pair.difference is not None for pair in report.comparisons)
    parts = [
        Part(HYPOTHESES, answer_lines(report.hypotheses or [])),
        Part("Failures", success.notes, failure_tables(success)) if success else Part("Failures"),
        Part("Accuracy by length", [], by_length, about),
        Part("Differences over seeds", [NORMAL] if tested else [], differences, OF_DIFFERENCES if differences else ""),
        Part("Data seeds", [], data_seed_tables(report), OF_DATA_SEEDS if report.data_seeds else ""),
        Part(PROBLEMS, report.problems),
        Part("Notes", report.notes),
        Part("Tuning budget", budget_lines(report.budget or [])),
    ]
    return [part for part in parts if part.lines or part.tables or part.about]


def answer_lines(answers: Sequence[HypothesisAnswer]) -> list[str]:
    """A sentence for each hypothesis and its answer; where one was tested, also on the assumption behind the test."""
    lines = [
        f"{answer.verdict}: {answer.words} ({'; '.join(filter(None, [answer.reason, answer.declared]))})"
        for answer in answers
    ]
    return [*lines, NORMAL] if any(answer.p is not None and answer.low is not None for answer in answers) else lines


def difference_tables(report: ReportFile) -> list[TextTable]:
    """The differences of rows with intervals, tests and seeds; no table without one."""
    rows = []
    for pair in report.comparisons:
        unit = report.units.get(pair.column, "")
        ends = [
            NONE if end is None else number(end, unit, signed=True) for end in (pair.difference, pair.low, pair.high)
        ]
        p = [NONE if value is None else p_number(value) for value in (pair.p, pair.corrected)]
        seeds = ", ".join(number(value, unit, signed=True) for _, value in pair.seeds) or NONE
        interval = NONE if NONE in ends else f"{ends[1]} to {ends[2]}"
        rows.append([f"{pair.row} - {pair.against}", pair.column, ends[0], interval, *p, seeds, pair.method or NONE])
    each = "each data seed" if any(pair.units == DATA_SEEDS for pair in report.comparisons) else "each seed"
    heads = ["rows", "column", "difference", "from, to", "p", "p corrected", each, "how"]
    return [TextTable("", heads, rows, words=2)] if rows else []


def data_seed_tables(report: ReportFile) -> list[TextTable]:
    """The means of cells by data seed, and spreads between seeds and between data sets; no table with one data set."""
    rows = []
    for cell in report.data_seeds:
        unit = report.units.get(cell.column, "")
        means = [f"data {each.data_seed}: {number(each.mean, unit)} ({each.n})" for each in cell.means]
        spreads = [
            NONE if value is None else number(value, unit) for value in (cell.within, cell.between, cell.expected)
        ]
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
    groups: dict[tuple, list[Cell]] = {}
    for cell in report.each():
        if cell.by_length and cell.mean is not None:
            places = [(part.first, part.last, round(part.share, 6)) for part in cell.by_length]
            groups.setdefault((cell.column.name, *places), []).append(cell)
    if not groups:
        return "", []
    order = list(dict.fromkeys(name for name, *_ in groups))
    tables = [cells for _, cells in sorted(groups.items(), key=lambda pair: order.index(pair[0][0]))]
    flat = dict.fromkeys(cells[0].column.name for cells in tables if _is_flat(cells))
    about = f"{ABOVE}. {listed(flat)}: no length is more than {FLAT:.0f} point from the mean." if flat else f"{ABOVE}."
    return about, [_breakdown(cells) for cells in tables if not _is_flat(cells)]


def _is_flat(cells: Sequence[Cell]) -> bool:
    """Whether accuracy is the same at all lengths, in every row."""
    return all(
        abs(as_float(part.mean) - as_float(cell.mean or 0)) <= FLAT for cell in cells for part in cell.by_length or ()
    )


def _breakdown(cells: Sequence[Cell]) -> TextTable:
    """Share of each length in the test set, then the mean of every row at each length."""
    parts = cells[0].by_length or []
    rows: list[tuple[str, list[Any]]] = [(SHARES, [100.0, *(part.share for part in parts)])]
    rows += [(cell.row, [cell.mean, *(part.mean for part in cell.by_length or ())]) for cell in cells]
    column = cells[0].column.name
    texts = [[name, *(number(value, SHARE.name) for value in values)] for name, values in rows]
    return TextTable(f"{column} by length", [column, "all", *(part.name for part in parts)], texts)
