"""What there is to show on the page: reports, diagnoses and texts below some folders, each read and looked through."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnlab.run.forms import MAYBE, mismatch

TEXT = (str, type(None))
SEED = {"seed": (int, str), "value": MAYBE, "state": str, "reason?": TEXT, "folder?": TEXT}
CELL = {
    "column": str,
    "mean": MAYBE,
    "sd?": MAYBE,
    "n": int,
    "best?": ([(int, float, str)], type(None)),
    "worst?": ([(int, float, str)], type(None)),
    "bimodal?": (bool, type(None)),
    "chosen?": TEXT,
    "published?": ({"value": MAYBE, "spread?": MAYBE, "text?": TEXT}, type(None)),
    "difference?": MAYBE,
    "difference_in_sd?": MAYBE,
    "seeds": [SEED],
}
COMPARISON = {"column": str, "row": str, "against": str, "difference": MAYBE, "low": MAYBE, "high": MAYBE}
ORIGIN = {
    "commits?": [str],
    "hardware?": [str],
    "versions?": dict,
    "seconds?": MAYBE,
    "runs?": (int, type(None)),
}
REPORT = {
    "experiment": str,
    "title": str,
    "protocol?": TEXT,
    "train_command?": TEXT,
    "report_command?": TEXT,
    "made?": TEXT,
    "published?": (
        {"paper?": TEXT, "table?": TEXT, "source?": TEXT, "trials?": (int, type(None))},
        type(None),
    ),
    "columns": [{"name": str, "metric?": TEXT, "unit?": TEXT}],
    "rows": [{"name": str, "cells": [CELL]}],
    "comparisons?": [COMPARISON | {"method?": TEXT}],
    "problems?": [str],
    "notes?": [str],
    "origin?": (ORIGIN, type(None)),
    "figures?": [{"file": str, "caption?": TEXT, "alt?": TEXT}],
}
"""The form of report.json; a key with a question mark may be missing."""


@dataclass
class Source:
    """A folder with something to show.

    report: what its report.json says, or None.
    text: its README.md, or None.
    below: diagnoses and texts that belong to its report.
    """

    folder: Path
    report: dict[str, Any] | None = None
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
                first = taken.setdefault(json.dumps(source.report, sort_keys=True), folder)
                if first == folder:
                    found.reports.append(source)
                else:
                    found.skipped.append(f"skipped {folder}: its report is that of {first}")
                continue
            owner = next((owners[parent] for parent in folder.parents if parent in owners), None)
            (found.others if owner is None else owner.below).append(source)
    # sections of one paper side by side, in the order of their names
    found.reports.sort(key=lambda source: source.report["experiment"])
    return found


def _folders(root: Path) -> Iterator[Path]:
    """A root and the folders below it, hidden ones left out, in the order of their names."""
    for place, names, _ in os.walk(root):
        names[:] = sorted(name for name in names if not name.startswith("."))
        yield Path(place)


def _read(folder: Path, skipped: list[str]) -> Source | None:
    """What a folder holds, or None; problems go to `skipped`."""
    report, text, file = None, None, folder / "report.json"
    if file.exists():
        try:
            report = json.loads(file.read_text())
            problem = mismatch(report, REPORT) or _loose_cell(report)
        except (OSError, ValueError) as error:
            problem = "cut short or no JSON" if isinstance(error, ValueError) else str(error.strerror)
        if problem:
            report = None
            skipped.append(f"skipped {file}: {problem}; write it again with python report.py experiment=...")
    if (folder / "README.md").exists():
        try:
            text = (folder / "README.md").read_text()
        except (OSError, ValueError) as error:
            skipped.append(f"skipped {folder / 'README.md'}: {error}")
    pictures = sorted(folder.glob("*.png"))
    with_numbers = [picture for picture in pictures if picture.with_suffix(".csv").exists()]
    if report is None and text is None and not with_numbers:
        return None
    # The pictures of a report are the ones it lists.
    kept = [] if report is not None else pictures if text is not None else with_numbers
    return Source(folder, report, text, kept)


def _loose_cell(report: dict[str, Any]) -> str | None:
    """A cell of a column that the report does not have, or a best or worst that is no pair of seed and value."""
    columns = {column["name"] for column in report["columns"]}
    for row in report["rows"]:
        for cell in row["cells"]:
            if cell["column"] not in columns:
                return f"row {row['name']} has a cell of the unknown column {cell['column']}"
            for key in ("best", "worst"):
                if cell.get(key) is not None and (len(cell[key]) != 2 or isinstance(cell[key][1], str)):
                    return f"row {row['name']}, column {cell['column']}: {key} is not [seed, value]"
    return None
