"""What there is to show on the page: reports, diagnoses and texts below some folders, each read and looked through."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from attnlab.report.page.markdown import split_title
from attnlab.report.report_json import ReportError, ReportFile, read_report


@dataclass
class Source:
    """A folder with something to show.

    report: what its report.json says, or None.
    title, text: the first heading of its README.md and the rest, or None.
    below: diagnoses and texts that belong to its report.
    """

    folder: Path
    report: ReportFile | None = None
    title: str | None = None
    text: str | None = None
    pictures: list[Path] = field(default_factory=list)
    below: list["Source"] = field(default_factory=list)


@dataclass
class Sources:
    """All there is; skipped: sentences `skipped <file>: why`."""

    reports: list[Source] = field(default_factory=list)
    others: list[Source] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


def find(roots: Sequence[Path]) -> Sources:
    """Reports, diagnosis folders (pictures with a csv of the same name) and texts below the roots.

    What lies below the folder of a report belongs to it. Of a report that stands in two places, word for word,
    the first is taken.
    """
    found, taken, seen = Sources(), {}, set()
    for root in roots:
        owners: dict[Path, Source] = {}
        for folder in _folders(root):
            if (place := folder.resolve()) in seen:
                continue
            seen.add(place)
            source = _read(folder, found.skipped)
            if source is None:
                continue
            if source.report is not None:
                owners[folder] = source
                first = taken.setdefault(repr(source.report), folder)
                if first == folder:
                    found.reports.append(source)
                else:
                    found.skipped.append(f"skipped {folder}: its report is that of {first}")
                continue
            owner = next((owners[parent] for parent in folder.parents if parent in owners), None)
            (found.others if owner is None else owner.below).append(source)
    # sections of one paper side by side, in the order of their names
    found.reports.sort(key=lambda source: source.report.experiment)
    return found


def _folders(root: Path) -> Iterator[Path]:
    """A root and the folders below it, hidden ones left out, in the order of their names."""
    for place, names, _ in os.walk(root):
        names[:] = sorted(name for name in names if not name.startswith("."))
        yield Path(place)


def _read(folder: Path, skipped: list[str]) -> Source | None:
    """What a folder holds, or None; problems go to `skipped`."""
    report, title, text, file = None, None, None, folder / "report.json"
    if file.exists():
        try:
            report = read_report(file)
        except ReportError as error:
            skipped.append(f"skipped {file}: {error}; write it again with python report.py experiment=...")
    if (folder / "README.md").exists():
        try:
            title, text = split_title((folder / "README.md").read_text())
        except (OSError, ValueError) as error:
            skipped.append(f"skipped {folder / 'README.md'}: {error}")
    pictures = sorted(folder.glob("*.png"))
    with_numbers = [picture for picture in pictures if picture.with_suffix(".csv").exists()]
    if report is None and text is None and not with_numbers:
        return None
    # The pictures of a report are the ones it lists.
    kept = [] if report is not None else pictures if text is not None else with_numbers
    return Source(folder, report, title, text, kept)
