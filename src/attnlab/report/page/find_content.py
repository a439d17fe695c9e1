"""Finds the content of the page: reports, diagnoses and texts below some folders."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from attnlab.report.page.markdown import split_title
from attnlab.report.report_record import ReportError, ReportFile, read_report


@dataclass
class ContentFolder:
    """A folder with content for the page.

    report: its report.json.
    title, text: the first heading of its README.md, and the rest.
    below: diagnoses and texts in its subfolders, if it holds a report.
    """

    folder: Path
    report: ReportFile | None = None
    title: str | None = None
    text: str | None = None
    pictures: list[Path] = field(default_factory=list)
    below: list["ContentFolder"] = field(default_factory=list)


def find(roots: Sequence[Path], skipped: list[str]) -> tuple[list[ContentFolder], list[ContentFolder]]:
    """Finds reports, diagnosis folders (pictures with a csv of the same name) and texts below the roots.

    Diagnoses and texts below the folder of a report belong to it. Of equal reports the first is taken.

    Args:
        skipped: gets sentences `skipped <file>: why`.

    Returns:
        folders with a report, and others that belong to no report.
    """
    reports, others, taken, owners, folders = [], [], {}, {}, {}
    for folder in chain.from_iterable(map(_folders, roots)):
        folders.setdefault(folder.resolve(), folder)
    for source in filter(None, (_read(folder, skipped) for folder in folders.values())):
        if source.report is None:
            owner = next((owners[parent] for parent in source.folder.parents if parent in owners), None)
            (owner.below if owner else others).append(source)
            continue
        owners[source.folder] = source
        first = taken.setdefault(repr(source.report), source.folder)
        if first == source.folder:
            reports.append(source)
        else:
            skipped.append(f"skipped {source.folder}: its report is that of {first}")
    # experiments of one paper follow each other
    return sorted(reports, key=lambda source: source.report.experiment), others


def _folders(root: Path) -> Iterator[Path]:
    """A root and the folders below it, without hidden ones, in the order of their names."""
    for folder, names, _ in os.walk(root):
        names[:] = sorted(name for name in names if not name.startswith("."))
        yield Path(folder)


def _read(folder: Path, skipped: list[str]) -> ContentFolder | None:
    """The content of a folder, if it has any; problems go to `skipped`."""
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
    # a report lists its pictures
    kept = [] if report is not None else pictures if text is not None else with_numbers
    return ContentFolder(folder, report, title, text, kept)
