"""Failures and times to success as tables of text, for terminal, markdown, LaTeX and the page."""

from attnlab.config.report_block import Success
from attnlab.learn.metric_units import OF_RUNS, SHARE, as_float, number, unit_of
from attnlab.report.failures.failure_record import RowSuccess, SuccessReport, TestAgainstBase
from attnlab.report.statistics.differences import p_number
from attnlab.report.text_tables import FAILED, NONE, TextTable, failed

WHOLE = OF_RUNS["state_size"].name
"""unit of whole numbers"""


def failure_tables(report: SuccessReport) -> list[TextTable]:
    """Failures of every row, and times to success where something was validated."""
    tested = any(row.fisher for row in report.rows)
    heads = ["", FAILED, *(["Fisher's p (corrected)"] if tested else []), "mean of all", "mean of the successful"]
    rows = [
        [row.row, failed(row), *([_test(report, row, row.fisher)] if tested else []), *_means(report, row)]
        for row in report.rows
    ]
    side = "above" if report.at_least is None else "below"
    failures = TextTable(f"Failures: {report.column} {side} {_threshold(report)}, or diverged", heads, rows)
    return [failures, *([_times(report)] if any(row.validated for row in report.rows) else [])]


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


def steps(count: float) -> str:
    """A number of steps: `4,000`."""
    return number(count, WHOLE)


def _means(report: SuccessReport, row: RowSuccess) -> list[str]:
    return [NONE if mean is None else number(mean, report.unit) for mean in (row.mean, row.successful_mean)]


def _times(report: SuccessReport) -> TextTable:
    """Steps to success of every row."""
    ranked = any(row.log_rank for row in report.rows)
    heads = ["", "reached", "median [95 %]", *(["log-rank p (corrected)"] if ranked else [])]
    rows = [[row.row, *_reached(row), *([_test(report, row, row.log_rank)] if ranked else [])] for row in report.rows]
    return TextTable(f"Steps to the first {success_in_words(report)}", heads, rows)


def _reached(row: RowSuccess) -> list[str]:
    """Runs that reached the threshold, and the median of their steps."""
    if not row.validated:
        return [NONE, NONE]
    half = "not reached" if row.median is None else steps(row.median)
    if row.median_low is not None:
        ends = f"{steps(row.median_low)}, {'no end' if row.median_high is None else steps(row.median_high)}"
        half += f" [{ends}]"
    return [f"{row.reached}/{row.validated}", half]


def _test(report: SuccessReport, row: RowSuccess, test: TestAgainstBase | None) -> str:
    if test is None:
        return "base" if row.row == report.against else NONE
    return f"{p_number(test.p)} ({p_number(test.corrected)})"
