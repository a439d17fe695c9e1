"""Sections of the page: an experiment, a diagnosis, a text."""

import re
from pathlib import Path

from attnlab.report.page.contents import Source
from attnlab.report.page.elements import Html, duration, join, tag
from attnlab.report.page.markdown import linked, rendered, split_title
from attnlab.report.page.pictures import PictureError, figure
from attnlab.report.page.tables import Record, cell_by_cell, differences, every_seed, glance, lacking

DATA = (".csv", ".md", ".tex", ".json", ".yaml")
"""files beside a report or a picture that are linked"""


class Page:
    """Sections, what they are called and what they had to leave out.

    Args:
        out: the file that will hold them.

    Attributes:
        entries: (id, title, remark) of each section, for the contents.
        skipped: sentences about what could not be shown.
        pictures: how many are inside.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self.entries: list[tuple[str, str, str]] = []
        self.skipped: list[str] = []
        self.pictures = 0

    def contents(self) -> Html:
        """The table of contents."""
        items = [
            tag("li", tag("a", title, href=f"#{name}"), tag("span", f" {remark}", class_="soft") if remark else None)
            for name, title, remark in self.entries
        ]
        return tag("nav", tag("h2", "Contents", id="contents"), tag("ul", *items), aria_labelledby="contents")

    def experiment(self, source: Source) -> Html:
        """A report: protocol, tables, figures, how it was obtained, files, and what lies below it."""
        report, folder = source.report or {}, source.folder
        name = self._enter(report["title"], report["experiment"], self._remark(report))
        protocol = report.get("protocol")
        said = ["Protocol: ", protocol.strip().rstrip("."), "."] if protocol else ["Protocol: as published."]
        if not protocol and not report.get("published"):
            said = ["Protocol: the experiment's own; nothing was published at these settings."]
        figures = [
            self._figure(folder / one["file"], folder, one.get("caption") or one["file"], one.get("alt"))
            for one in report.get("figures") or []
        ]
        parts = (
            tag("h2", report["title"], id=f"{name}-title"),
            tag("p", tag("code", report["experiment"])),
            tag("p", *said, class_="protocol"),
            self._published(report),
            _listed("Without a number", report.get("problems"), "problems"),
            glance(report),
            cell_by_cell(report),
            _metrics(report),
            tag("h3", "Differences over seeds") if report.get("comparisons") else None,
            differences(report),
            *figures,
            _listed("To know", report.get("notes")),
            tag("h3", "How it was obtained"),
            self._origin(report, folder),
            every_seed(report),
            self._text(source, 2)[0],
            *(self._below(one, folder) for one in source.below),
        )
        return tag("section", *parts, id=name, aria_labelledby=f"{name}-title")

    def other(self, source: Source) -> Html:
        """A text or a diagnosis that belongs to no report."""
        title = self._title(source, source.folder.parent)
        name = self._enter(title, source.folder.name, "")
        heading = tag("h2", title, id=f"{name}-title")
        return tag("section", heading, *self._content(source, 1), id=name, aria_labelledby=f"{name}-title")

    def _below(self, source: Source, owner: Path) -> Html:
        return tag("section", tag("h3", self._title(source, owner)), *self._content(source, 2))

    def _content(self, source: Source, lower: int) -> list[Html | None]:
        """Text, pictures that it does not hold, files."""
        text, inside = self._text(source, lower)
        pictures = [
            self._figure(picture, source.folder, picture.stem.replace("_", " "), None)
            for picture in source.pictures
            if picture.resolve() not in inside
        ]
        files = self._files(source.folder)
        return [text, *pictures, tag("p", "Files: ", files) if files else None]

    def _title(self, source: Source, owner: Path) -> str:
        title = split_title(source.text)[0] if source.text is not None else None
        return title or f"Diagnosis: {source.folder.relative_to(owner).as_posix()}"

    def _text(self, source: Source, lower: int) -> tuple[Html | None, set[Path]]:
        """The README without its title, and the pictures in it."""
        if source.text is None:
            return None, set()
        html, inside = rendered(split_title(source.text)[1], source.folder, self.out, lower)
        self.pictures += len(inside)
        return html, inside

    def _figure(self, file: Path, folder: Path, caption: str, alt: str | None) -> Html | None:
        """A picture with links to its numbers; None, and a line in `skipped`, where it cannot be shown."""
        numbers, more = file.with_suffix(".csv"), None
        if numbers.exists():
            more = tag("a", numbers.name, href=linked(numbers, self.out))
            more = join(("(", more, ")"))
        try:
            shown = figure(file, folder, caption, alt or f"Chart: {caption}", more)
        except PictureError as error:
            self.skipped.append(f"skipped picture {error}")
            return tag("p", f"The picture {file.name} is missing: {caption}", class_="mark")
        self.pictures += 1
        return shown

    def _files(self, folder: Path) -> Html | None:
        """Links to the data files of a folder."""
        files = sorted(file for file in folder.iterdir() if file.suffix in DATA and file.is_file())
        if not files:
            return None
        links = join((tag("a", file.name, href=linked(file, self.out)) for file in files), ", ")
        return links

    def _published(self, report: Record) -> Html | None:
        published = report.get("published")
        if not published:
            return None
        trials = published.get("trials")
        named = [published.get("paper"), published.get("source"), f"{trials} trials" if trials else None]
        return tag("p", "Published values: " + ", ".join(part for part in named if part) + ".")

    def _origin(self, report: Record, folder: Path) -> Html:
        """Commands, cost, machine and versions; rows that are not known are left out."""
        origin = report.get("origin") or {}
        seconds, commands = origin.get("seconds"), [report.get("train_command"), report.get("report_command")]
        versions = ", ".join(f"{name} {version}" for name, version in (origin.get("versions") or {}).items())
        rows = {
            "commands": join(tag("pre", command) for command in commands if command),
            "runs": str(origin["runs"]) if origin.get("runs") is not None else "",
            "training time": f"{duration(seconds)}, all runs together" if seconds is not None else "",
            "commits": join((tag("code", commit) for commit in origin.get("commits") or []), ", "),
            "hardware": "; ".join(origin.get("hardware") or []),
            "versions": versions,
            "report made": report.get("made") or "",
            "folder": tag("code", folder.as_posix()) if not folder.is_absolute() else "",
            "files": self._files(folder) or "",
        }
        return tag("dl", *(join((tag("dt", name), tag("dd", value))) for name, value in rows.items() if value))

    def _remark(self, report: Record) -> str:
        """Runs and missing cells in a few words."""
        runs, cells = (report.get("origin") or {}).get("runs"), sum(len(row["cells"]) for row in report["rows"])
        counted = "" if runs is None else f"{runs} run{'' if runs == 1 else 's'}, "
        missing = lacking(report)
        return counted + (f"{missing} of {cells} cells without a number" if missing else "every cell has a number")

    def _enter(self, title: str, path: str, remark: str) -> str:
        """A section's id, unique on the page."""
        base = re.sub(r"[^a-z0-9]+", "-", path.lower()).strip("-") or "section"
        taken = {name for name, _, _ in self.entries}
        name = next(
            name for at in range(1, len(taken) + 2) if (name := f"{base}-{at}" if at > 1 else base) not in taken
        )
        self.entries.append((name, title, remark))
        return name


def _listed(title: str, lines: list[str] | None, style: str | None = None) -> Html | None:
    if not lines:
        return None
    return tag("div", tag("p", tag("strong", title)), tag("ul", *(tag("li", line) for line in lines)), class_=style)


def _metrics(report: Record) -> Html:
    """What the columns are called in the runs' own files."""
    named = [
        join((column["name"], " is ", tag("code", column["metric"])))
        for column in report["columns"]
        if column.get("metric")
    ]
    return tag("p", "Columns: ", join(named, "; "), ".", class_="soft") if named else Html("")
