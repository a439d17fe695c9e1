"""Archives of run folders: written seed by seed, and unpacked."""

import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from attnlab.config.problem import UserError
from attnlab.report.runs.read_runs import grouped
from attnlab.report.runs.run_archives import unpack
from background.places import MEASURED, PILOT_RUNS, REPORTS, ROOT, RUNS, CampaignError, log, read_json, replace
from background.runs import Cell
from background.worktrees import child

FILES = ("config.yaml", "metrics.csv", "result.json", "status.json")
"""files of a run folder that an archive holds"""
UNFINISHED = "_unfinished"
"""in the name of an archive that has not all runs of its seed"""
PILOT = "pilot.tar.xz"
"""the archive of the pilot runs of a claim"""


def archive_seeds(members: Sequence[Cell], lock: TextIO) -> list[subprocess.Popen[bytes]]:
    """Write the archive of every seed that is complete and has none; starts the reports of these claims, and of those
    that have none here."""
    changed = {}
    for (claim, commit, seed), of_seed in by_seed(members).items():
        archive = archive_of(claim, seed)
        if not archive.exists() and all(cell.outcome() for cell in of_seed):
            write_archive(archive, of_seed)
            archive_of(claim, seed, UNFINISHED).unlink(missing_ok=True)
            changed[claim] = commit
        elif archive.exists() and not (REPORTS / claim / "report.json").exists():
            changed[claim] = commit
    return [child(commit, ("report.py", f"experiment=claims/{claim}"), lock) for claim, commit in changed.items()]


def archive_unfinished(members: Sequence[Cell]) -> None:
    """Write archives of the runs with an outcome of seeds that are not complete, so that other machines go on there."""
    for (claim, _, seed), of_seed in by_seed(members).items():
        ended = [cell for cell in of_seed if cell.outcome()]
        if ended and not archive_of(claim, seed).exists():
            write_archive(archive_of(claim, seed, UNFINISHED), ended)


def by_seed(members: Sequence[Cell]) -> dict[tuple[str, str, int], list[Cell]]:
    """Runs by claim, commit and seed."""
    return grouped((cell, (cell.claim, cell.commit, cell.seed)) for cell in members)


def archive_of(claim: str, seed: int, kind: str = "") -> Path:
    """The archive of a seed; `UNFINISHED`: of a part of its runs."""
    return MEASURED / claim / f"seed{seed}{kind}.tar.xz"


def write_archive(archive: Path, members: Sequence[Cell]) -> None:
    """Write the archive of some runs, with a line in the log."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    replace(archive, packed(sorted(cell.folder for cell in members)))
    log(f"written: {archive.relative_to(ROOT)}, {archive.stat().st_size:,} bytes")


def packed(folders: Sequence[str], runs: Path = RUNS) -> bytes:
    """A tar.xz file of run folders below `runs`, the same bytes for the same files; without the process and the
    machine."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:xz", format=tarfile.PAX_FORMAT) as archive:
        for folder in folders:
            for file in (runs / folder / name for name in FILES if (runs / folder / name).exists()):
                data = file.read_bytes()
                if file.name == "status.json":
                    stored = read_json(file, "restore it from a copy, or move its run away")
                    status = {key: value for key, value in stored.items() if key not in ("pid", "host")}
                    data = json.dumps(status, indent=2).encode() + b"\n"
                entry = tarfile.TarInfo(f"{folder}/{file.name}")
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    return content.getvalue()


def restore() -> int:
    """Unpack the run folders of all archives, also of pilots, that are not there; returns their number.

    Raises:
        CampaignError: as `unpack_into`.
    """
    return unpack_into(RUNS, "*/seed*.tar.xz") + unpack_into(PILOT_RUNS, f"*/{PILOT}")


def unpack_into(runs: Path, archives: str) -> int:
    """Unpack the run folders that are not there of the archives that match a glob; returns their number.

    Raises:
        CampaignError: an archive is damaged, or two copies of a run differ.
    """
    try:
        count, earlier = unpack(MEASURED.glob(archives), runs)
    except UserError as error:
        raise CampaignError(str(error)) from error
    for sentence in earlier:
        print(f"note: {sentence}", file=sys.stderr)
    return count
