"""The templates of the page and their filters."""

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from attnlab.learn import metric_units
from attnlab.report.failures.failure_tables import HEAD, failed, failure_tables
from attnlab.report.length_tables import ABOVE, HEADING, beside, flat_columns, lines_of, of_report
from attnlab.report.page.sections import asked
from attnlab.report.page.summary import extent, measured, run_lines, verdicts
from attnlab.report.shortcuts import rows_of_report
from attnlab.report.statistics.differences import p_number

HERE = Path(__file__).parent
MINUS, NOTHING = "\N{MINUS SIGN}", "\N{EN DASH}"


@cache
def templates() -> Environment:
    """The files of `templates/` and page.css, with escaping."""
    loader = FileSystemLoader([HERE / "templates", HERE])
    found = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    found.filters |= {"number": number, "duration": duration, "p_number": p_number}
    found.globals |= {"MINUS": MINUS, "NOTHING": NOTHING, "FAILED": HEAD, "HEADING": HEADING, "ABOVE": ABOVE}
    functions = (beside, flat_columns, lines_of, of_report, failed, failure_tables, rows_of_report)
    found.globals |= {one.__name__: one for one in (asked, extent, measured, run_lines, verdicts, *functions)}
    return found


def number(value: float | None, unit: str, signed: bool = False, like: float | None = None) -> str:
    """As `learn.metric_units.number`, with a typographic minus; a dash for None."""
    return NOTHING if value is None else metric_units.number(value, unit, signed, like).replace("-", MINUS)


def duration(seconds: float | int) -> str:
    """Seconds, with minutes or hours if these are easier to read."""
    text = metric_units.text("seconds", seconds)
    if metric_units.problem("seconds", seconds) or seconds >= metric_units.LONG:
        return text
    if seconds >= 2 * 3600:
        return f"{text} ({seconds / 3600:.1f} hours)"
    return f"{text} ({seconds / 60:.0f} minutes)" if seconds >= 120 else text
