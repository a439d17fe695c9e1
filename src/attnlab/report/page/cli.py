"""`python report.py page`: one HTML file of everything measured, which loads nothing else."""

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from attnlab.config.check import ConfigError
from attnlab.config.command_frame import command
from attnlab.config.command_line.option_parser import CommandOptions, options_help, read_options, unknown_options
from attnlab.config.message_text import counted, listed
from attnlab.report.page.render_templates import templates
from attnlab.report.page.sections import Page
from attnlab.run.run_folder import require_writable, write_text

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

    def problems(self) -> Iterator[str]:
        """Missing folders, and a folder instead of a file."""
        for key, folder in (("measured", self.measured), ("reports", self.reports)):
            if folder and not folder.is_dir():
                yield f"{key}={folder}: no such folder"
        if self.out.is_dir():
            yield f"out={self.out}: is a folder; name a file, such as {self.out / 'report.html'}"


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
    page = Page(options.out, {named(words, folder): folder for words, folder in folders.items()})
    written = time.strftime("%Y-%m-%d %H:%M %Z")
    text = templates().get_template("page.html").render(page=page, written=written)
    require_writable(options.out.parent, ELSEWHERE)
    write_text(options.out, text, ELSEWHERE)
    for sentence in page.skipped:
        print(sentence, file=sys.stderr)
    if not page.reports and not page.others:
        print(f"nothing measured was found below {listed(map(_searched, folders.values()))}: the page is empty")
    counts = {"report": len(page.reports), "other section": len(page.others), "picture": page.pictures}
    told = ", ".join(counted(count, name) for name, count in counts.items())
    print(f"{options.out}: {told}, {len(text.encode()) / 1e6:.1f} MB")
    return 0


def named(words: str, folder: Path) -> str:
    """Words on a folder with its path, which means nothing on other machines if it is absolute."""
    return words if folder.is_absolute() else f"{words} ({folder.as_posix()})"


def _searched(folder: Path) -> str:
    """A folder that was searched, and whether it exists."""
    return str(folder) if folder.is_dir() else f"{folder} (no such folder)"
