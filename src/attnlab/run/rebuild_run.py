"""Parts of a trained run that its folder alone does not hold: data folders, task, network with weights."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnlab.config.job_config import job_config
from attnlab.run.named_runs import asked_config
from attnlab.run.run_folder import RunError, read_config

if TYPE_CHECKING:
    from torch import Tensor, nn

    from attnlab.config.schema import Config
    from attnlab.data.task_spec import TaskSpec

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


def network_with(weights: "Mapping[str, Tensor]", folder: Path, config: "Config", spec: "TaskSpec") -> "nn.Module":
    """Returns the network of a run on the CPU, with weights from `read_checkpoints.run_weights`.

    Args:
        spec: specification of the task that it was trained on; longer data must not change the network.

    Raises:
        RunError: the weights do not fit.
    """
    from attnlab.run.build_runtime import make_network

    network = make_network(config, spec)
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        raise RunError(f"the weights of {folder} do not fit the network of its config.yaml: {error}") from None
    return network


def config_here(folder: Path) -> dict[str, Any]:
    """The plain configuration of a trained run, with its own tokenizer and the data folders to use here."""
    raw = asked_config("run", folder)
    with_own_tokens(raw["task"], folder)
    # the weights are in the run's own checkpoint; the run of its warm start may be gone
    return raw | {"from_run": None, "paths": paths_here(raw["paths"])}


def rebuilt_config(folder: Path, paths: Mapping[str, str]) -> "Config":
    """The configuration of a trained run on this machine, with the data folders of a command (`data`, `cache`).

    Raises:
        RunError: no run folder, or a damaged one.
    """
    raw = config_here(folder)
    return job_config(raw | {"paths": raw["paths"] | paths}).typed
