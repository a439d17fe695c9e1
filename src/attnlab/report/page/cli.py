"""`python report.py page`: one HTML file of everything measured, which loads nothing else."""

import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from attnlab.config.command_line.command_frame import command
from attnlab.config.command_line.option_parser import CommandOptions, options_help, read_options, unknown_options
from attnlab.config.message_text import counted, listed
from attnlab.config.problem import ConfigError, Problem
from attnlab.learn import metric_units
from attnlab.report.page.sections import Page, Picture, Section, hypotheses, read_pixels, run_lines, verdicts
from attnlab.report.report_record import ReportFile
from attnlab.report.text_tables import HYPOTHESES, NONE, PROBLEMS, cell_by_cell, glance, report_parts
from attnlab.run.run_folder import require_writable, write_text

HERE = Path(__file__).parent
MINUS, NOTHING = "\N{MINUS SIGN}", "\N{EN DASH}"
MEASURED, REPORTS = Path("experiments/measured"), Path("experiments/reports")
ELSEWHERE = "choose another out=<file>"
_FOLDER = {"value": "<folder>"}


@dataclass(frozen=True, kw_only=True)
class PageOptions(CommandOptions):
    """Options of report.py page."""

    measured: Path | None = field(default=None, metadata=_FOLDER)
    """committed results (default: experiments/measured)"""
    reports: Path | None = field(default=None, metadata=_FOLDER)
    """reports of this machine (default: experiments/reports)"""
    out: Path = field(default=Path("experiments/report.html"), metadata={"value": "<file>"})
    """the page (default: experiments/report.html)"""

    def problems(self) -> Iterator[Problem]:
        """Missing folders, and a folder instead of a file."""
        for key, folder in (("measured", self.measured), ("reports", self.reports)):
            if folder and not folder.is_dir():
                yield Problem(key, f"={folder}: no such folder")
        if self.out.is_dir():
            yield Problem("out", f"={self.out}: is a folder; name a file, such as {self.out / 'report.html'}")


HELP = f"""python report.py page [measured=<folder>] [reports=<folder>] [out=<file>]

One HTML page of everything measured: every report.json, diagnosis folder and README below two folders, in one file that
opens from disk.

{options_help(PageOptions, 22)}
"""


@command(lambda: HELP, needs_words=False, prefix="report.py")
def page_main(argv: Sequence[str]) -> int:
    """Write the page; returns the exit code."""
    line = read_options(PageOptions, argv)
    if problems := unknown_options(PageOptions, line.others) + line.problems:
        raise ConfigError(problems, "report.py page")
    options = line.complete()
    folders = {"Committed results": options.measured or MEASURED, "Reports of this machine": options.reports or REPORTS}
    # an absolute path means nothing on other machines
    roots = {
        words if folder.is_absolute() else f"{words} ({folder.as_posix()})": folder for words, folder in folders.items()
    }
    page = Page(options.out, roots)
    written = time.strftime("%Y-%m-%d %H:%M %Z")
    text = templates().get_template("page.html").render(page=page, written=written)
    require_writable(options.out.parent, ELSEWHERE)
    write_text(options.out, text, ELSEWHERE)
    for sentence in page.skipped:
        print(sentence, file=sys.stderr)
    if not page.reports and not page.others:
        searched = [f"{folder}{'' if folder.is_dir() else ' (no such folder)'}" for folder in folders.values()]
        print(f"nothing measured was found below {listed(searched)}: the page is empty")
    counts = {"report": len(page.reports), "other section": len(page.others), "picture": page.pictures}
    content = ", ".join(counted(count, name) for name, count in counts.items())
    print(f"{options.out}: {content}, {len(text.encode()) / 1e6:.1f} MB")
    return 0


def forest_picture(sections: Iterable[Section]) -> Picture | None:
    """A forest plot of the hypotheses of all reports; None of fewer than two reports, and where no difference can be
    drawn."""
    reports: dict[str, ReportFile] = {}
    for section in sections:
        if section.report and hypotheses([section]):
            # an experiment may have several reports: here, committed, narrowed
            reports.setdefault(section.report.experiment, section.report)
    if len(reports) < 2:
        return None
    # slow to import, and most pages need no drawing
    from attnlab.plots.style import save
    from attnlab.report.figures.forest import forest_of_reports, lines_of
    from attnlab.report.table_types import TableError

    groups = [(report.title, lines_of(report)) for report in reports.values()]
    with TemporaryDirectory() as folder:
        try:
            figure, caption = forest_of_reports(groups)
        except TableError:
            return None
        file = save(figure, Path(folder) / "forest.png")
        return Picture(file.name, caption, read_pixels(file, Path(folder)), None)


@cache
def templates() -> Environment:
    """The files of `templates/` and page.css, with escaping."""
    loader = FileSystemLoader([HERE / "templates", HERE])
    files = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    files.filters |= {"number": number, "cell": cell, "with_unit": metric_units.text}
    files.globals |= {"MINUS": MINUS, "NOTHING": NOTHING, "HYPOTHESES": HYPOTHESES, "PROBLEMS": PROBLEMS}
    functions = (forest_picture, hypotheses, run_lines, verdicts, report_parts, cell_by_cell, glance)
    files.globals |= {function.__name__: function for function in functions}
    return files


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
