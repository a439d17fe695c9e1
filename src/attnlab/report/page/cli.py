"""`python report.py page`: one HTML file of everything measured; it opens from disk and loads nothing."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from attnlab.config.suggest import hint, listed, nearest
from attnlab.report.page.contents import Sources, find
from attnlab.report.page.rendering import templates
from attnlab.report.page.sections import Page
from attnlab.run.run_folder import RunError, write_text

DEFAULTS = {
    "measured": "experiments/measured",
    "reports": "experiments/reports",
    "out": "experiments/report.html",
}
HELP = """python report.py page [measured=<folder>] [reports=<folder>] [out=<file>]

One HTML page of everything measured: every report.json, diagnosis folder and README below two folders, in one file that
opens from disk.

  measured=...   committed results (default: experiments/measured)
  reports=...    what report.py wrote here (default: experiments/reports)
  out=...        the page (default: experiments/report.html)
"""


def page_main(argv: Sequence[str]) -> int:
    """Write the page; returns the exit code."""
    if any(word in ("--help", "-h") for word in argv):
        print(HELP)
        return 0
    given = {word.partition("=")[0]: word.partition("=")[2] for word in argv}
    problems = _problems(argv, given)
    if problems:
        print("\n".join(f"report.py page: {problem}" for problem in problems), file=sys.stderr)
        return 2
    paths = {key: Path(given.get(key, default)) for key, default in DEFAULTS.items()}
    sources, out = find((paths["measured"], paths["reports"])), paths["out"]
    page = Page(out)
    text = _written(page, sources)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_text(out, text)
    except (OSError, RunError) as error:
        print(f"report.py page: out={out}: {error}", file=sys.stderr)
        return 1
    for line in page.skipped:
        print(line, file=sys.stderr)
    counts = [(len(sources.reports), "experiment"), (len(sources.others), "other section"), (page.pictures, "picture")]
    shown = ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for count, name in counts)
    print(f"{out}: {shown}, {len(text.encode()) / 1e6:.1f} MB")
    return 0


def _problems(argv: Sequence[str], given: dict[str, str]) -> list[str]:
    """Every option that is wrong, as a sentence."""
    found = []
    for word in argv:
        key, equals, value = word.partition("=")
        if key not in DEFAULTS:
            found.append(f"{key}: unknown option{hint(nearest(key, DEFAULTS))}; allowed: {listed(DEFAULTS)}")
        elif not equals or not value:
            found.append(f"{word}: expected {key}=<{'file' if key == 'out' else 'folder'}>")
    folders = [key for key in ("measured", "reports") if given.get(key)]
    found += [f"{key}={given[key]}: no such folder" for key in folders if not Path(given[key]).is_dir()]
    if given.get("out") and Path(given["out"]).is_dir():
        found.append(f"out={given['out']}: is a folder; name a file, such as {Path(given['out']) / 'report.html'}")
    return found


def _written(page: Page, sources: Sources) -> str:
    """The whole document; what the sections had to leave out is gathered in `page.skipped`."""
    page.skipped += sources.skipped
    reports = [page.section(source) for source in sources.reports]
    others = [page.section(source) for source in sources.others]
    shown = {"reports": reports, "others": others, "skipped": page.skipped}
    return templates().get_template("page.html").render(shown, written=time.strftime("%Y-%m-%d %H:%M %Z"))
