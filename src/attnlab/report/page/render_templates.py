"""The templates of the page and their filters."""

import re
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from attnlab.learn import metric_units
from attnlab.report.failures.failure_tables import failure_tables
from attnlab.report.length_tables import HEADING, length_tables
from attnlab.report.page.sections import asked
from attnlab.report.page.summary import run_lines, verdicts
from attnlab.report.statistics.differences import p_number
from attnlab.report.text_tables import NONE, cell_by_cell, glance

HERE = Path(__file__).parent
MINUS, NOTHING = "\N{MINUS SIGN}", "\N{EN DASH}"


@cache
def templates() -> Environment:
    """The files of `templates/` and page.css, with escaping."""
    loader = FileSystemLoader([HERE / "templates", HERE])
    found = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    found.filters |= {"number": number, "cell": cell, "duration": duration, "p_number": p_number}
    found.globals |= {"MINUS": MINUS, "NOTHING": NOTHING, "HEADING": HEADING}
    tables = (failure_tables, length_tables, cell_by_cell, glance)
    found.globals |= {one.__name__: one for one in (asked, run_lines, verdicts, *tables)}
    return found


def number(value: float | None, unit: str, signed: bool = False, like: float | None = None) -> str:
    """As `learn.metric_units.number`, with a typographic minus; a dash for None."""
    return NOTHING if value is None else metric_units.number(value, unit, signed, like).replace("-", MINUS)


def cell(text: str, runs: str) -> Markup:
    """A text of a table with typographic signs; its number of seeds, or a text without numbers, leads to the runs.

    Args:
        runs: their place on the page; empty where a line has none.
    """
    html = str(escape(re.sub(r"(?<![\w.])-(?=\d)", MINUS, NOTHING if text == NONE else text)))
    html = re.sub(r"[;,] ((?:published|[\d.]+ %) .*)", r"<small>\1</small>", html)
    link = f'<a href="#{escape(runs)}"'
    if runs and text and text != NONE and not re.search(r"\d", text):
        html = f'{link} class="mark">{html}</a>'
    elif runs:
        seeds = r"(\(\d+(?: of \d+)?(?:, \d+ data seeds)?\))"
        html = re.sub(seeds, rf'{link} aria-label="the runs of this cell">\1</a>', html, count=1)
    return Markup(html)


def duration(seconds: float | int) -> str:
    """Seconds, with minutes or hours if these are easier to read."""
    text = metric_units.text("seconds", seconds)
    if metric_units.problem("seconds", seconds) or seconds >= metric_units.LONG:
        return text
    if seconds >= 2 * 3600:
        return f"{text} ({seconds / 3600:.1f} hours)"
    return f"{text} ({seconds / 60:.0f} minutes)" if seconds >= 120 else text
