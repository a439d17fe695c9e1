"""Checks of run folders and subsets on a command line, with the nearest right word; without torch and data."""

import difflib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from attnlab.config.message_text import hint
from attnlab.config.nearest_word import nearest
from attnlab.config.validation.data_rules import declared_subsets
from attnlab.run.read_run_files import Missing, RunError, read_config

MOST_RUNS = 8
"""run folders that a message names"""
LEVELS = 4
"""levels of folders below paths.runs: task, model, tag, seed"""
RUN_FOLDER = "experiments/runs/<task>/<model>/<tag>/seed<k>"


def asked_config(key: str, folder: Path) -> dict[str, Any]:
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


def subset_problem(task: Mapping[str, Any], subset: str) -> str | None:
    """Why a task lacks a subset, if its class declares its subsets; else None."""
    declared = declared_subsets(task)
    return unknown_subset(subset, declared) if declared and subset not in declared else None


def unknown_subset(subset: str, names: Sequence[str]) -> str:
    """A message for an unknown subset, with the nearest one and all of them."""
    above = [name for name in names if subset.startswith(f"{name}/")]
    alike = [name for name in names if name.split("/")[0] == subset.split("/", 1)[0]]
    near = nearest(subset, names) or next(iter([*above, *alike]), None)
    return f"subset={subset}: no such subset{hint(near)}; this task and split have {', '.join(names)}"


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
