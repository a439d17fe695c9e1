"""The queue: claims in the order of their runs, each with the commit that declares it; and the presets of claims."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from attnlab.config.message_text import hint
from attnlab.config.nearest_word import nearest
from attnlab.config.run_identity import is_former_default
from background.lock import LONGEST_STOP, locked
from background.places import (
    MEASURED,
    PILOTS,
    PRESETS,
    QUEUE,
    ROOT,
    RUNS,
    WORK,
    CampaignError,
    git,
    read_json,
    replace,
)
from background.runs import Cell, cells
from background.worktrees import require_commit


def read_queue() -> dict[str, str]:
    """The commit of each claim, in the order of the queue.

    Raises:
        CampaignError: it cannot be read, or is no list of claims and commits.
    """
    queue = read_json(QUEUE, "settle its conflict, or: git checkout HEAD -- " + str(QUEUE)) if QUEUE.exists() else {}
    if not isinstance(queue, dict) or not all(isinstance(commit, str) for commit in queue.values()):
        raise CampaignError(f'{QUEUE} has no commit for each claim, as in {{"scan_length": "4907f76a68"}}')
    return queue


def declare(claims: Sequence[str], commit: str) -> None:
    """Add claims to the queue. A claim without runs may move to another commit.

    Raises:
        CampaignError: no such preset at that commit, one that does not compose, a claim with runs whose preset
            differs there, or one that begins with runs of no claim.
    """
    full = git("rev-parse", "--verify", f"{commit}^{{commit}}")
    with locked(WORK / "queue.lock", LONGEST_STOP):
        queue = read_queue()
        for claim in claims:
            if claim.startswith(("_", PILOTS)):
                raise CampaignError(f"{claim}: no claim, but a pilot, or settings that claims include")
            if preset_at(full, claim) is None:
                if preset_at(None, claim) is None:
                    raise CampaignError(no_preset(claim))
                raise CampaignError(f"{claim}: no {PRESETS}/{claim}.yaml at commit {full[:10]}; commit it first")
            if claim not in queue or not has_begun(claim):
                queue[claim] = full
            elif preset_at(queue[claim], claim) != preset_at(full, claim):
                raise CampaignError(changed_preset(claim, queue[claim]))
        require_sources(cells(queue))
        MEASURED.mkdir(parents=True, exist_ok=True)
        replace(QUEUE, json.dumps(queue, indent=1).encode() + b"\n")


def no_preset(name: str) -> str:
    """That there is no preset of this name below the claims, with the nearest one in its folder."""
    file = ROOT / PRESETS / f"{name}.yaml"
    names = [other.stem for other in file.parent.glob("[!_]*.yaml")]
    return f"no {PRESETS}/{name}.yaml{hint(nearest(file.stem, names))}"


def require_sources(members: Sequence[Cell]) -> None:
    """Check that the runs which others begin with are of claims too.

    Raises:
        CampaignError: one is not.
    """
    folders = {cell.folder for cell in members}
    for cell in members:
        if cell.from_run is not None and cell.from_run not in folders:
            other = f"it begins with the run {cell.from_run}, which no claim of the queue has"
            raise CampaignError(f"{cell.claim}: {other}; start that claim too")


def require_unchanged(queue: Mapping[str, str]) -> None:
    """Compare the presets of claims that still have runs with the declared ones; comments may differ.

    Raises:
        CampaignError: a claim has another preset here, or its commit is not in this repository.
    """
    for claim, commit in queue.items():
        require_commit(commit)
        if preset_at(None, claim) != preset_at(commit, claim):
            raise CampaignError(changed_preset(claim, commit))


def changed_preset(claim: str, commit: str) -> str:
    """The sentence on a preset that differs from its declaration."""
    advice = f"commit it, then: python experiments/campaign.py start {claim}"
    if has_begun(claim):
        advice = "its runs were begun: restore it, and give the changed one a new name with a note why"
    return f"{claim}: {PRESETS}/{claim}.yaml differs from commit {commit[:10]}, which declares it; {advice}"


def preset_at(commit: str | None, claim: str) -> list[Any] | None:
    """A preset and the claims that it includes, without comments, at a commit or in this checkout; None if missing.

    Keys that repeat a former default are left out: they keep a claim as it was declared.

    Raises:
        CampaignError: it is no preset.
    """
    file = f"{PRESETS}/{claim}.yaml"
    if commit is None:
        text = (ROOT / file).read_text(encoding="utf-8", errors="replace") if (ROOT / file).is_file() else None
    else:
        words = ["git", "show", f"{commit}:{file}"]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        text = None if done.returncode else done.stdout
    if text is None:
        return None
    where, place = f"{file}{f' at commit {commit[:10]}' if commit else ''}", "/experiment/claims/"
    try:
        preset = yaml.safe_load(text)
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split())
        raise CampaignError(f"{where} is no yaml ({problem}); settle its conflict, or restore it") from error
    if not isinstance(preset, dict) or not isinstance(preset.get("defaults", []), list):
        raise CampaignError(f"{where} is no preset: it has no settings, or its defaults are no list")
    included = [each.removeprefix(place) for each in preset.get("defaults", []) if str(each).startswith(place)]
    return [without_former_defaults(preset), *(preset_at(commit, each) for each in included)]


def without_former_defaults(section: Mapping[str, Any], key: str = "") -> dict[str, Any]:
    """A section of a preset without keys whose value is a former default, and without sections of such keys only."""
    kept: dict[str, Any] = {}
    for name, value in section.items():
        path = f"{key}.{name}".removeprefix(".")
        if isinstance(value, Mapping) and value:
            if inner := without_former_defaults(value, path):
                kept[name] = inner
        elif not is_former_default(path, value):
            kept[name] = value
    return kept


def has_begun(claim: str) -> bool:
    """Whether a claim has an archive, or a run folder here."""
    return any((MEASURED / claim).glob("seed*.tar.xz")) or any((RUNS / claim).rglob("config.yaml"))
