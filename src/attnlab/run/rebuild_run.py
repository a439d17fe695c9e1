"""The configuration of a trained run on this machine: data folders, tokenizer, task; imports no torch."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnlab.config.job_config import job_config
from attnlab.config.schema import Config
from attnlab.run.named_runs import asked_config
from attnlab.run.read_run_files import read_config

DATA_FOLDERS = {"data": ("ATTNLAB_DATA", "data"), "cache": ("ATTNLAB_CACHE", "data/cache")}
"""keys of `paths`, with the environment variable that conf/config.yaml reads and the default folder"""


def paths_here(paths: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the data folders to use for a run, whose configuration may be a stranger's: official files where the run
    read them, if that folder exists and was chosen for it, and the cache of this command.
    """
    here = {key: os.environ.get(variable) or default for key, (variable, default) in DATA_FOLDERS.items()}
    former = str(paths["data"])
    if former != DATA_FOLDERS["data"][1] and Path(former).expanduser().is_dir():
        return {**paths, **here, "data": former}
    if former != here["data"]:
        print(f"note: paths.data is {here['data']}; it was {former} in training", file=sys.stderr)
    return {**paths, **here}


def with_own_tokens(task: dict[str, Any], folder: Path) -> None:
    """Set the tokenizer of a task to the one in the run folder, which the network was trained with."""
    if "from_run" in task and (folder / "tokenizer.json").exists():
        task["from_run"] = str(folder)


def trained_on(folder: Path) -> dict[str, Any]:
    """The configuration of the task that a run was trained on, which decides the shape of its network."""
    task = read_config(folder / "config.yaml")["task"]
    with_own_tokens(task, folder)
    return task


def config_here(folder: Path) -> dict[str, Any]:
    """The plain configuration of a trained run, with its own tokenizer and the data folders to use here."""
    raw = asked_config("run", folder)
    with_own_tokens(raw["task"], folder)
    # the weights are in the run's own checkpoint; the run of its warm start may be gone
    return raw | {"from_run": None, "paths": paths_here(raw["paths"])}


def rebuilt_config(folder: Path, paths: Mapping[str, str]) -> Config:
    """The configuration of a trained run here, with a command's data folders; a RunError if it is none, or damaged."""
    raw = config_here(folder)
    return job_config(raw | {"paths": raw["paths"] | paths}).typed
