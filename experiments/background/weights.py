"""Runs that begin with the weights of other runs of claims, which are trained again where their weights are missing.

Archives hold no weights. A run is trained again below `AGAIN`, and its weights go to its folder once it has ended: so
`restore` and reports always see the one run with its numbers, and an interruption loses nothing.
"""

import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

from attnlab.run.run_lock import LOCK
from background.archives import FILES
from background.places import WORK, log
from background.runs import Cell

AGAIN = WORK / "again"
CHECKPOINT, METRICS = "last.ckpt", "metrics.csv"


class Retraining(Cell):
    """A run of a claim that is trained again for its weights."""

    @property
    def name(self) -> str:
        """Claim, words, and why."""
        return f"{super().name} (again, for its weights)"

    @property
    def path(self) -> Path:
        """The folder in which it is trained again."""
        return AGAIN / self.folder

    @property
    def target(self) -> Path:
        """The folder of the run, which its weights go to."""
        return super().path

    def outcome(self) -> str | None:
        """finished once the folder of the run has its weights, else None."""
        return "finished" if has_weights(self.target) else None


def has_weights(folder: Path) -> bool:
    """Whether a folder of a finished run has the weights that its result is of."""
    rule = None
    with suppress(OSError, ValueError, LookupError, TypeError):
        rule = json.loads((folder / "result.json").read_text())["selection"]["rule"]
    return (folder / CHECKPOINT).exists() and (rule != "best_validation" or any(folder.glob("best_step*.pt")))


def first_of(cell: Cell, by_folder: Mapping[str, Cell]) -> Cell | None:
    """What is trained first for a run: the run that it begins with, again, if that has no weights, else the run itself.

    None: it waits, as the run that it begins with is not finished.
    """
    if cell.from_run is None:
        return cell
    source = by_folder.get(cell.from_run)
    if source is None or source.outcome() != "finished":
        return None
    if has_weights(source.path):
        return cell
    return first_of(Retraining(**{field.name: getattr(source, field.name) for field in fields(source)}), by_folder)


def remove_emptied(cell: Retraining) -> None:
    """Remove an ended retraining that has lost weights, or was killed while they were moved: it would not train."""
    if (cell.path / "result.json").exists() and not has_weights(cell.path):
        shutil.rmtree(cell.path)


def take_weights(cell: Retraining) -> None:
    """Move the weights of an ended retraining, and other files that no archive holds, to its run, whose files stay."""
    if not (cell.path / "result.json").exists():
        return
    files = cell.path / METRICS, cell.target / METRICS
    if len({file.read_bytes() if file.exists() else None for file in files}) > 1:
        log(f"{cell.name}: it has other numbers than before; the former ones and their archive stay")
    # a folder with this file counts as one that has all weights
    for file in sorted(cell.path.iterdir(), key=lambda file: file.name == CHECKPOINT):
        if file.name not in (*FILES, LOCK):
            file.replace(cell.target / file.name)
    shutil.rmtree(cell.path)
