"""Run folders and subsets that a command names: checks with the nearest right word, and the configuration of a run on
this machine (data folders, tokenizer); without torch and data.
"""

import difflib
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from attnlab.config.classes.recorded_code import other_code
from attnlab.config.job_config import job_config
from attnlab.config.message_text import hint
from attnlab.config.nearest_word import nearest
from attnlab.config.problem import Problem
from attnlab.config.schema import Config
from attnlab.config.user_path import expanded
from attnlab.config.validation.data_rules import declared_subsets
from attnlab.run.read_run_files import Missing, RunError, Unreadable, read_config, read_status

MOST_RUNS = 8
"""run folders that a message names"""
LEVELS = 4
"""levels of folders below paths.runs: task, model, tag, seed"""
RUN_FOLDER = "experiments/runs/<task>/<model>/<tag>/seed<k>"
DATA_FOLDERS = {"data": ("ATTNLAB_DATA", "data"), "cache": ("ATTNLAB_CACHE", "data/cache")}
"""keys of `paths`, with the environment variable that conf/config.yaml reads and the default folder"""


def config_of_folder(key: str, folder: Path) -> dict[str, Any]:
    """The configuration of the run that `key=folder` names; a RunError if it is missing or damaged."""
    try:
        return read_config(folder / "config.yaml")
    except Missing:
        raise RunError(f"{key}={folder}: it is no run folder{_instead(key, folder)}") from None
    except RunError as error:
        raise RunError(f"{key}={folder}: {error}") from None


def folder_words(argv: Sequence[str], keys: Sequence[str]) -> dict[str, str]:
    """Words that are a folder without its key, each with the right word: for a key of one run, the first run below."""
    right = {}
    for word in argv:
        if not word.startswith(tuple(f"{key}=" for key in keys)) and Path(word).is_dir():
            run = word if (Path(word) / "config.yaml").exists() else next(_runs_below(Path(word)), word)
            right[word] = " or ".join(shlex.quote(f"{key}={word if key == 'runs' else run}") for key in keys)
    return right


def subset_problem(task: Mapping[str, Any], subset: str) -> Problem | None:
    """Why a task lacks a subset, if its class declares its subsets; else None."""
    declared = declared_subsets(task)
    return unknown_subset(subset, declared) if declared and subset not in declared else None


def unknown_subset(subset: str, names: Sequence[str]) -> Problem:
    """The problem of an unknown subset, with the nearest one and all of them."""
    above = [name for name in names if subset.startswith(f"{name}/")]
    siblings = [name for name in names if name.split("/")[0] == subset.split("/", 1)[0]]
    near = nearest(subset, names) or next(iter([*above, *siblings]), None)
    return Problem("subset", f"={subset}: no such subset{hint(near)}; this task and split have {', '.join(names)}")


def _instead(key: str, folder: Path) -> str:
    """Describes a path that is no run folder."""
    if not folder.exists():
        return f": no such folder{hint(folder_like(folder))}"
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
    levels = (folder.glob("*/" * level + "seed*/config.yaml") for level in range(LEVELS))
    yield from next(filter(None, (sorted(file.parent for file in files) for files in levels)), ())


def folder_like(folder: Path) -> str | None:
    """The existing folder most like a missing one, in the deepest parent that exists."""
    for missing, parent in pairwise([folder, *folder.parents]):
        if parent.is_dir():
            names = sorted(path.name for path in parent.iterdir() if path.is_dir())
            close = difflib.get_close_matches(missing.name, names, n=1, cutoff=0.5)
            return str(parent / close[0]) if close else None
    return None


def paths_here(paths: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the data folders to use for a run, whose configuration may be a stranger's: official files where the run
    read them, if that folder exists and was chosen for it, and the cache of this command.
    """
    here = {key: os.environ.get(variable) or default for key, (variable, default) in DATA_FOLDERS.items()}
    former = str(paths["data"])
    if former != DATA_FOLDERS["data"][1] and Path(expanded(former)).is_dir():
        return {**paths, **here, "data": former}
    if former != here["data"]:
        print(f"note: paths.data is {here['data']}; it was {former} in training", file=sys.stderr)
    return {**paths, **here}


def _with_stored_tokens(task: dict[str, Any], folder: Path) -> None:
    """Set the tokenizer of a task to the one in the run folder, which the network was trained with."""
    if "from_run" in task and (folder / "tokenizer.json").exists():
        task["from_run"] = str(folder)


def trained_on(folder: Path) -> dict[str, Any]:
    """The configuration of the task that a run was trained on, which decides the shape of its network."""
    task = read_config(folder / "config.yaml")["task"]
    _with_stored_tokens(task, folder)
    return task


def config_here(folder: Path) -> dict[str, Any]:
    """The plain configuration of a trained run, with its own tokenizer and the data folders to use here."""
    raw = config_of_folder("run", folder)
    _with_stored_tokens(raw["task"], folder)
    # the weights are in the run's own checkpoint; the run of its warm start may be gone
    return raw | {"from_run": None, "paths": paths_here(raw["paths"])}


def rebuilt_config(folder: Path, paths: Mapping[str, str]) -> Config:
    """The configuration of a trained run here, with a command's data folders; a RunError if it is none, or damaged."""
    raw = config_here(folder)
    return job_config(raw | {"paths": raw["paths"] | paths}).typed


def code_note(folder: Path, config: Mapping[str, Any]) -> str:
    """A note if the run of a folder was trained with other code than is here; else empty."""
    with suppress(Unreadable):
        if changed := other_code(read_status(folder / "status.json"), config):
            return f"note: the run was trained with other code of {changed} than is here now"
    return ""
