"""What a command line says of a trained run, its folder and a subset: refused with the nearest right word.

Needs neither torch nor data, so that a slip costs a second.
"""

import difflib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from attnlab.config.capabilities import Unknown, signature_of
from attnlab.config.suggest import hint, nearest
from attnlab.run.read_run_files import Missing, RunError, read_config

MOST_RUNS = 8
"""run folders that are named at once"""
LEVELS = 4
"""of folders between paths.runs and a run: task, model, tag, seed"""
RUN_FOLDER = "experiments/runs/<task>/<model>/<tag>/seed<k>"


def asked_config(key: str, folder: Path) -> dict[str, Any]:
    """The configuration of the run that `key=folder` names.

    Raises:
        RunError: there is none, or it is damaged.
    """
    try:
        return read_config(folder / "config.yaml")
    except Missing:
        raise RunError(f"{key}={folder}: it is no run folder{_instead(key, folder)}") from None
    except RunError as error:
        raise RunError(f"{key}={folder}: {error}") from None


def folder_words(argv: Sequence[str], keys: Sequence[str]) -> dict[str, str]:
    """Words that are a folder without its key, and what to write; = and commas are part of run folders' names.

    For keys that take one run, a folder above run folders is written as the first of them.
    """
    found = {}
    for word in argv:
        if not word.startswith(tuple(f"{key}=" for key in keys)) and Path(word).is_dir():
            one = word if (Path(word) / "config.yaml").exists() else next(_runs_below(Path(word)), word)
            found[word] = " or ".join(shlex.quote(f"{key}={word if key == 'runs' else one}") for key in keys)
    return found


def subset_problem(task: Mapping[str, Any], subset: str) -> str | None:
    """Why a task has no such subset, as far as its class says which it has; else None."""
    there = declared_subsets(task)
    return unknown_subset(subset, there) if there and subset not in there else None


def declared_subsets(task: Mapping[str, Any]) -> Sequence[str]:
    """The subsets that a task says it has with these options (`Task.subsets`); none where it does not say."""
    try:
        attributes = signature_of(task).attributes
    except Unknown:
        return ()
    for option, by_value in (attributes.get("subsets_with") or {}).items():
        if task.get(option) in by_value:
            return by_value[task[option]]
    return attributes.get("subsets") or ()


def unknown_subset(subset: str, there: Sequence[str]) -> str:
    """A subset that is not there, the nearest one, and all of them."""
    above = [name for name in there if subset.startswith(f"{name}/")]
    beside = [name for name in there if name.split("/")[0] == subset.split("/", 1)[0]]
    near = nearest(subset, there) or next(iter([*above, *beside]), None)
    return f"subset={subset}: no such subset{hint(near)}; this task and split have {', '.join(there)}"


def _instead(key: str, folder: Path) -> str:
    """What is in the place of a run folder."""
    if not folder.exists():
        return f": no such folder{hint(_folder_like(folder))}"
    if not folder.is_dir():
        return f": it is a file{hint(str(folder.parent))}"
    runs = list(islice(_runs_below(folder), MOST_RUNS + 1))
    if not runs:
        return f" (no config.yaml there, and none below); expected one such as {RUN_FOLDER}"
    names = ", ".join(str(run.relative_to(folder)) for run in runs[:MOST_RUNS])
    more = ", ..." if len(runs) > MOST_RUNS else ""
    return f", but holds some: {names}{more}; write {shlex.quote(f'{key}={runs[0]}')}"


def _runs_below(folder: Path) -> Iterator[Path]:
    """Run folders at the first level below a folder that has any, in the order of their names."""
    for level in range(1, LEVELS + 1):
        found = sorted(file.parent for file in folder.glob("*/" * (level - 1) + "seed*/config.yaml"))
        if found:
            yield from found
            return


def _folder_like(folder: Path) -> str | None:
    """A folder beside the deepest one that is there, whose name is most like what was written."""
    parts = [folder, *folder.parents]
    there = next((place for place in parts if place.is_dir()), None)
    if there is None:
        return None
    written = parts[parts.index(there) - 1].name
    names = sorted(place.name for place in there.iterdir() if place.is_dir())
    found = difflib.get_close_matches(written, names, n=1, cutoff=0.5)
    return str(there / found[0]) if found else None
