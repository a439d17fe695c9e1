"""Pilots of claims: trained from this checkout, and archived."""

import json
import subprocess
import sys
from dataclasses import replace as changed

from attnlab.report.runs.read_runs import run_folders
from background.archives import PILOT, packed, unpack_into
from background.places import MEASURED, PILOT_RUNS, PILOTS, ROOT, CampaignError, remove_parts, replace
from background.queue import no_preset, preset_at
from background.runs import Cell, cells_of, composed_cells
from background.worktrees import environment, link_data, stop_with_parent, take_lowest_priority

FIRST_PILOT_SEED = 901
"""the lowest seed of a pilot"""


def pilot(claim: str) -> int:
    """Train what is left of a claim's pilot, archive it once all runs have an outcome, and print its report.

    Returns:
        The exit code: 1 if runs are left.

    Raises:
        CampaignError: there is no such pilot, it does not compose, or it has a seed that claims may use.
    """
    name = f"{PILOTS}{claim}"
    if preset_at(None, name) is None:
        raise CampaignError(no_preset(name))
    members = cells_of(json.loads(composed_cells(name, ROOT, name)))
    if low := sorted({cell.seed for cell in members if cell.seed < FIRST_PILOT_SEED}):
        seeds = ", ".join(map(str, low))
        raise CampaignError(
            f"{name}: seeds of a pilot are {FIRST_PILOT_SEED} and up, which claims do not use, not {seeds}"
        )
    remove_parts()
    unpack_into(PILOT_RUNS, f"{claim}/{PILOT}")
    link_data()
    words = "hydra/launcher=joblib", "logger=csv", "trainer.progress=none"
    in_background("train.py", "-m", f"experiment=claims/{name}", *words)
    left = sum(cell.outcome() is None for cell in members)
    if left:
        print(f"not archived: {left} of {len(members)} runs have no outcome; the same command goes on", flush=True)
    else:
        archive_pilot(members[0])
    code = in_background("report.py", f"experiment=claims/{name}")
    return int(bool(left or code))


def in_background(*words: str) -> int:
    """Run a command in this checkout at the lowest priority, its lines shown here; returns its exit code.

    It is stopped when this process ends, and by Ctrl-C.
    """
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=ROOT,
        env=environment(ROOT),
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # the priority of a session is not that of the terminal
        preexec_fn=_idle_and_stopped,  # noqa: PLW1509  this process has one thread
    )
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.terminate()
        return process.wait()


def _idle_and_stopped() -> None:
    stop_with_parent()
    take_lowest_priority()


def archive_pilot(member: Cell) -> None:
    """Write the archive of all runs of a pilot that have an outcome, given one: also those of former settings."""
    claim = member.claim.removeprefix(PILOTS)
    folders = (str(folder.relative_to(PILOT_RUNS)) for folder in run_folders(str(PILOT_RUNS / claim)))
    ended = sorted(folder for folder in folders if changed(member, folder=folder).outcome())
    archive = MEASURED / claim / PILOT
    archive.parent.mkdir(parents=True, exist_ok=True)
    replace(archive, packed(ended, PILOT_RUNS))
    print(f"written: {archive.relative_to(ROOT)}, {len(ended)} runs, {archive.stat().st_size:,} bytes", flush=True)
