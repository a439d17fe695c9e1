"""Sections of the page: the content that the templates show for an experiment, a diagnosis or a text."""

import re
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from attnlab.report.page.find_content import ContentFolder
from attnlab.report.page.markdown import linked, rendered
from attnlab.report.page.pictures import PictureError, Pixels, read_pixels
from attnlab.report.report_record import ReportFile

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


@dataclass(frozen=True)
class Section:
    """The section of one folder.

    id:      unique on the page; empty for a section inside another one.
    remark:  follows the title in the table of contents.
    text:    its README without the title.
    below:   sections inside this one.
    folder:  its path; empty if that is absolute, which means nothing on other machines.
    """

    title: str
    id: str
    remark: str
    report: ReportFile | None
    text: Markup | None
    pictures: list[Picture]
    files: list[Link]
    below: list["Section"]
    folder: str


class Page:
    """Makes the sections of a page.

    Args:
        out: the file of the page.

    Attributes:
        skipped: sentences on files that cannot be shown.
        pictures: how many pictures are on the page.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self.skipped: list[str] = []
        self.pictures = 0
        self._ids: set[str] = set()

    def section(self, source: ContentFolder, owner: Path | None = None) -> Section:
        """The section of a report, a text or a diagnosis.

        Args:
            owner: the folder of the report whose section holds this one.
        """
        report, folder, text, inside = source.report, source.folder, None, set()
        if source.text is not None:
            text, inside = rendered(source.text, folder, self.out, 1 if report is None and owner is None else 2)
            self.pictures += len(inside)
        if report is not None:
            title, shown = report.title, [(folder / one.file, one.caption or one.file) for one in report.figures]
        else:
            title = source.title or f"Diagnosis: {folder.relative_to(owner or folder.parent).as_posix()}"
            shown = [(one, one.stem.replace("_", " ")) for one in source.pictures if one.resolve() not in inside]
        return Section(
            title=title,
            id="" if owner else self._new_id(report.experiment if report else folder.name),
            remark=_remark(report) if report else "",
            report=report,
            text=text,
            pictures=[self._picture(file, folder, caption) for file, caption in shown],
            files=[self._link(file) for file in sorted(folder.iterdir()) if file.suffix in DATA and file.is_file()],
            below=[self.section(one, folder) for one in source.below],
            folder="" if folder.is_absolute() else folder.as_posix(),
        )

    def _picture(self, file: Path, folder: Path, caption: str) -> Picture:
        """A picture; a sentence in `skipped` if it cannot be shown."""
        numbers, pixels = file.with_suffix(".csv"), None
        try:
            pixels = read_pixels(file, folder)
            self.pictures += 1
        except PictureError as error:
            self.skipped.append(f"skipped picture {error}")
        return Picture(file.name, caption, pixels, self._link(numbers) if numbers.exists() else None)

    def _link(self, file: Path) -> Link:
        return file.name, linked(file, self.out)

    def _new_id(self, path: str) -> str:
        base = re.sub(r"[^a-z0-9]+", "-", path.lower()).strip("-") or "section"
        names = [base, *(f"{base}-{at}" for at in range(2, len(self._ids) + 2))]
        name = next(name for name in names if name not in self._ids)
        self._ids.add(name)
        return name


def _remark(report: ReportFile) -> str:
    """The number of runs and of missing cells."""
    runs, means = report.origin and report.origin.runs, [cell.mean for _, cell in report.each()]
    counted = "" if runs is None else f"{runs} run{'' if runs == 1 else 's'}, "
    missing = means.count(None)
    return counted + (f"{missing} of {len(means)} cells without a number" if missing else "every cell has a number")
