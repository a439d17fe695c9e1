"""Sections of the page: reports, diagnoses and texts that lie below some folders, and how much of them is measured."""

import base64
import os
import re
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote

from markupsafe import Markup

from attnlab.config.message_text import counted
from attnlab.data.files.regular_file import LARGEST, read_regular
from attnlab.plots.png_caption import caption_in
from attnlab.report.analysis_record import HypothesisAnswer, ReportSeed
from attnlab.report.report_record import ReportError, ReportFile, ReportRow, read_report
from attnlab.report.statistics.differences import VERDICTS

_BEGIN, _END = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"


class PictureError(Exception):
    """A picture that cannot be shown: why."""


@dataclass(frozen=True)
class Pixels:
    """A PNG file as a data URI; with its size the page keeps its layout while it loads.

    caption: of the file; empty if it holds none.
    """

    uri: str
    width: int
    height: int
    caption: str = ""


DATA = (".csv", ".md", ".tex", ".json", ".yaml")
"""files in the folder of a section that are linked"""
Link = tuple[str, str]
"""the name of a file and its address"""


@dataclass(frozen=True)
class Picture:
    """A picture with the file of its numbers; without pixels if it cannot be shown."""

    name: str
    caption: str
    pixels: Pixels | None
    numbers: Link | None


@dataclass
class Section:
    """The section of one folder.

    id:      unique among the sections that are not inside another one.
    source:  the folder of the page that it was found below, in words.
    extent:  measured and expected cells and runs of its report; empty without one.
    text:    its README without the title.
    folder:  its path; empty if that is absolute, which means nothing on other machines.
    below:   sections of diagnoses and texts in its subfolders, if it holds a report.
    """

    title: str
    id: str
    source: str
    report: ReportFile | None
    extent: dict[str, tuple[int, int]]
    text: Markup | None
    pictures: list[Picture]
    files: list[Link]
    folder: str
    below: list["Section"] = field(default_factory=list)

    @property
    def remark(self) -> str:
        """The number of runs and of missing cells; empty without a report."""
        if not self.extent:
            return ""
        (cells, of_cells), (runs, of_runs) = self.extent["cells"], self.extent["runs"]
        number = f"{runs} of {counted(of_runs, 'run')}" if runs < of_runs else counted(runs, "run")
        lacking = f"{of_cells - cells} of {of_cells} cells without a number" if cells < of_cells else ""
        return f"{number}, {lacking or 'every cell has a number'}"


class Page:
    """The sections of a page: reports, diagnosis folders (pictures with a csv of the same name) and texts.

    Diagnoses and texts below the folder of a report belong to it. Of equal reports the first is taken.

    Args:
        out: the file of the page.
        roots: folders that are searched, by what they hold in words.

    Attributes:
        reports: root by root, in the order of their experiments' names.
        others: diagnoses and texts that belong to no report.
        skipped: sentences on files that cannot be shown.
        pictures: how many are on the page.
    """

    def __init__(self, out: Path, roots: Mapping[str, Path]) -> None:
        self.out, self.pictures = out, 0
        self.reports: list[Section] = []
        self.others: list[Section] = []
        self.skipped: list[str] = []
        self._first: dict[str, Path] = {}
        self._owners: dict[Path, Section | None] = {}
        folders: dict[Path, tuple[Path, str]] = {}
        for source, root in roots.items():
            for place, names, _ in os.walk(root):
                names[:] = sorted(name for name in names if not name.startswith("."))
                folders.setdefault(Path(place).resolve(), (Path(place), source))
        for folder, source in folders.values():
            self._add(folder, source)
        # experiments of one paper follow each other
        places = list(roots)
        self.reports.sort(
            key=lambda entry: (places.index(entry.source), entry.report.experiment if entry.report else "")
        )
        ids: Counter[str] = Counter()
        for section in self.reports + self.others:
            ids[section.id] += 1
            section.id += f"--{ids[section.id]}" if ids[section.id] > 1 else ""

    def _add(self, folder: Path, source: str) -> None:
        """Adds the content of a folder, if it has any."""
        report, title, text = self._read(folder)
        if report is not None:
            self._owners[folder], first = None, self._first.setdefault(repr(report), folder)
            if first != folder:
                self.skipped.append(f"skipped {folder}: its report is that of {first}")
                return
            title, name, place = report.title, report.experiment, self.reports
            shown = [(folder / figure.file, figure.caption or figure.file) for figure in report.figures]
        else:
            pictures, name = sorted(folder.glob("*.png")), folder.name
            shown = [(file, "") for file in pictures if text is not None or file.with_suffix(".csv").exists()]
            above = [self._owners[parent] for parent in folder.parents if parent in self._owners]
            if (text is None and not shown) or above[:1] == [None]:
                return
            place = above[0].below if above and above[0] else self.others
        lower = 1 if place is self.others else 2
        html, inside = (None, set()) if text is None else rendered(text, folder, self.out, lower)
        self.pictures += len(inside)
        shown = [(file, caption) for file, caption in shown if report or file.resolve() not in inside]
        section = Section(
            title=title or name,
            id=re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "section",
            source=source,
            report=report,
            extent=extent(report) if report else {},
            text=html,
            pictures=[self._picture(file, folder, caption) for file, caption in shown],
            files=[self._link(file) for file in sorted(folder.iterdir()) if file.suffix in DATA and file.is_file()],
            folder="" if folder.is_absolute() else folder.as_posix(),
        )
        place.append(section)
        self._owners |= {folder: section} if report else {}

    def _read(self, folder: Path) -> tuple[ReportFile | None, str | None, str | None]:
        """The report of a folder, and title and text of its README.md."""
        report, title, text, file = None, None, None, folder / "report.json"
        if file.exists():
            try:
                report = read_report(file)
            except ReportError as error:
                self.skipped.append(f"skipped {file}: {error}; write it again with python report.py experiment=...")
        if (folder / "README.md").exists():
            try:
                text = read_regular(folder / "README.md", LARGEST).decode()
            except (OSError, ValueError) as error:
                why = getattr(error, "strerror", None) or error
                self.skipped.append(f"skipped {folder / 'README.md'}: {why}")
            else:
                text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL).strip()
                if heading := re.match(r"#\s+(.+)\n?", text):
                    title, text = heading[1].strip(), text[heading.end() :]
        return report, title, text

    def _picture(self, file: Path, folder: Path, caption: str) -> Picture:
        """A picture; a sentence in `skipped` if it cannot be shown."""
        numbers, pixels = file.with_suffix(".csv"), None
        try:
            pixels = read_pixels(file, folder)
            self.pictures += 1
        except PictureError as error:
            self.skipped.append(f"skipped picture {error}")
        else:
            # a report's caption has its title too; other pictures hold their own
            caption = caption or pixels.caption or file.stem.replace("_", " ")
        return Picture(file.name, caption or file.name, pixels, self._link(numbers) if numbers.exists() else None)

    def _link(self, file: Path) -> Link:
        return file.name, linked(file, self.out)


def verdicts(answers: Sequence[HypothesisAnswer]) -> dict[str, int]:
    """The number of answers by verdict, in their order; verdicts of other programs last."""
    names = dict.fromkeys([*VERDICTS, *(answer.verdict for answer in answers)])
    counts = {name: sum(answer.verdict == name for answer in answers) for name in names}
    return {name: count for name, count in counts.items() if count}


def run_lines(row: ReportRow) -> dict[tuple[int | str, str], dict[str, ReportSeed]]:
    """Every run behind a row, by seed and folder, with what it has in each column; a run without a folder is the first
    of its seed, and means of columns, which have none, are no runs."""
    lines: dict[tuple[int | str, str], dict[str, ReportSeed]] = {}
    known = any(seed.folder for cell in row.cells for seed in cell.seeds)
    for cell in row.cells:
        for seed in cell.seeds:
            if known and seed.folder is None:
                continue
            folder = seed.folder or next((folder for key, folder in lines if key == seed.key), "")
            lines.setdefault((seed.key, folder), {})[cell.column.name] = seed
    return lines


def extent(report: ReportFile) -> dict[str, tuple[int, int]]:
    """Pairs of measured and expected numbers of a report: cells, and runs."""
    cells = [cell.mean is not None for cell in report.each()]
    lines = [line for row in report.rows for line in run_lines(row).values()]
    runs = [any(seed.value is not None for seed in line.values()) for line in lines]
    return {"cells": (sum(cells), len(cells)), "runs": (sum(runs), len(runs))}


def hypotheses(sections: Iterable[Section]) -> list[HypothesisAnswer]:
    """The answered hypotheses of all reports of some sections."""
    return [answer for section in sections if section.report for answer in section.report.hypotheses or ()]


def read_pixels(file: Path, folder: Path) -> Pixels:
    """Reads a PNG file below a folder.

    Raises:
        PictureError: it is missing, outside of the folder, no PNG or cut short.
    """
    if not file.resolve().is_relative_to(folder.resolve()):
        raise PictureError(f"{file}: outside of {folder}")
    try:
        content = read_regular(file, LARGEST)
    except OSError as error:
        raise PictureError(f"{file}: {error.strerror}") from None
    if not content.startswith(_BEGIN) or not content.rstrip().endswith(_END) or len(content) < 33:
        raise PictureError(f"{file}: no PNG, or cut short")
    width, height = struct.unpack(">II", content[16:24])
    uri = f"data:image/png;base64,{base64.b64encode(content).decode()}"
    return Pixels(uri, width, height, caption_in(content))


def linked(target: Path, page: Path) -> str:
    """The link to a file from the page."""
    return quote(os.path.relpath(target, page.parent).replace(os.sep, "/"))


def rendered(text: str, folder: Path, page: Path, lower: int) -> tuple[Markup, set[Path]]:
    """The markdown of a folder as HTML, raw HTML shown as text, headings some levels lower; and its pictures."""
    from markdown_it import MarkdownIt

    reader, pictures = MarkdownIt("commonmark", {"html": False, "xhtmlOut": False}).enable("table"), set()
    tokens = reader.parse(text)
    for token in [token for outer in tokens for token in (outer, *(outer.children or ()))]:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + lower)}"
        elif token.type == "th_open":
            token.attrSet("scope", "col")
        elif token.type == "link_open":
            target = str(token.attrGet("href"))
            # links that are no files stay
            if not re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:|#|/", target):
                file, mark, part = target.partition("#")
                token.attrSet("href", linked(folder / unquote(file), page) + mark + part)
        elif token.type == "image":
            image = (folder / unquote(str(token.attrGet("src")))).resolve()
            try:
                token.attrSet("src", read_pixels(image, folder).uri)
                pictures.add(image)
            except PictureError:
                token.type, token.content = "text", f"[picture: {token.content}]"
    html = reader.renderer.render(tokens, reader.options, {})
    html = html.replace("<table>", '<div class="scroll" role="region" aria-label="table" tabindex="0"><table>')
    return Markup(html.replace("</table>", "</table></div>")), pictures
