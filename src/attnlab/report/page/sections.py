"""Sections of the page: what the templates show of an experiment, a diagnosis, a text."""

import re
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from attnlab.report.page.contents import Source
from attnlab.report.page.markdown import linked, rendered
from attnlab.report.page.pictures import PictureError, Pixels, read_pixels
from attnlab.report.report_json import ReportFile

DATA = (".csv", ".md", ".tex", ".json", ".yaml")
"""files beside a report or a picture that are linked"""
Link = tuple[str, str]
"""the name of a file and its address"""


@dataclass(frozen=True)
class Picture:
    """A picture with the file of its numbers; without pixels where it cannot be shown."""

    name: str
    caption: str
    pixels: Pixels | None
    numbers: Link | None


@dataclass(frozen=True)
class Section:
    """One folder.

    id:      unique on the page; empty for a part of another section.
    remark:  behind its title in the contents.
    text:    its README without the title.
    folder:  where it is; empty where that is of this machine only.
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
    """Makes sections.

    Args:
        out: the file that will hold them.

    Attributes:
        skipped: sentences about what could not be shown.
        pictures: how many are inside.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self.skipped: list[str] = []
        self.pictures = 0
        self._ids: set[str] = set()

    def section(self, source: Source, owner: Path | None = None) -> Section:
        """A report; or a text or a diagnosis, by itself or below the folder of a report, its owner."""
        report, folder = source.report, source.folder
        text, inside = self._text(source, 1 if report is None and owner is None else 2)
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
            files=self._files(folder),
            below=[self.section(one, folder) for one in source.below],
            folder="" if folder.is_absolute() else folder.as_posix(),
        )

    def _text(self, source: Source, lower: int) -> tuple[Markup | None, set[Path]]:
        """The README without its title, and the pictures in it."""
        if source.text is None:
            return None, set()
        text, inside = rendered(source.text, source.folder, self.out, lower)
        self.pictures += len(inside)
        return text, inside

    def _picture(self, file: Path, folder: Path, caption: str) -> Picture:
        """A picture; one that cannot be shown costs a line in `skipped`."""
        numbers = file.with_suffix(".csv")
        pixels = None
        try:
            pixels = read_pixels(file, folder)
            self.pictures += 1
        except PictureError as error:
            self.skipped.append(f"skipped picture {error}")
        return Picture(file.name, caption, pixels, self._link(numbers) if numbers.exists() else None)

    def _files(self, folder: Path) -> list[Link]:
        """The data files of a folder."""
        return [self._link(file) for file in sorted(folder.iterdir()) if file.suffix in DATA and file.is_file()]

    def _link(self, file: Path) -> Link:
        return file.name, linked(file, self.out)

    def _new_id(self, path: str) -> str:
        base = re.sub(r"[^a-z0-9]+", "-", path.lower()).strip("-") or "section"
        names = [base, *(f"{base}-{at}" for at in range(2, len(self._ids) + 2))]
        name = next(name for name in names if name not in self._ids)
        self._ids.add(name)
        return name


def _remark(report: ReportFile) -> str:
    """Runs and missing cells in a few words."""
    runs, means = report.origin and report.origin.runs, [cell.mean for _, cell in report.each()]
    counted = "" if runs is None else f"{runs} run{'' if runs == 1 else 's'}, "
    missing = means.count(None)
    return counted + (f"{missing} of {len(means)} cells without a number" if missing else "every cell has a number")
