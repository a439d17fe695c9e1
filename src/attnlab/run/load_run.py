"""A trained run once more: the data it was trained on, and its network with its weights."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnlab.run.run_folder import RunError, read_config

if TYPE_CHECKING:
    from torch import Tensor, nn

    from attnlab.config.schema import Config
    from attnlab.data.task_spec import TaskSpec


PLACES = {"data": ("ATTNLAB_DATA", "data"), "cache": ("ATTNLAB_CACHE", "data/cache")}
"""keys of `paths` with the variable that conf/config.yaml reads and the folder without it"""


def paths_here(paths: Mapping[str, Any]) -> dict[str, Any]:
    """A run's folders as this command sees them.

    The environment's folder is read in place of the default one, and of one that is not there (any more). Any other
    folder was chosen for this run, and may hold other data.
    """
    found = dict(paths)
    for key, (variable, default) in PLACES.items():
        former, here = str(paths[key]), os.environ.get(variable)
        if here and here != former and (former == default or not Path(former).expanduser().exists()):
            print(f"note: paths.{key} is {variable}={here}; it was {former} in training", file=sys.stderr)
            found[key] = here
    return found


def with_own_tokens(task: dict[str, Any], folder: Path) -> None:
    """A task must be read in the tokens that the run learned, which it keeps."""
    if "from_run" in task and (folder / "tokenizer.json").exists():
        task["from_run"] = str(folder)


def trained_on(folder: Path) -> dict[str, Any]:
    """The task that a run was trained on: its network is made for that.

    Its data is read from where this command reads data, which may not be where the run did.
    """
    task = read_config(folder / "config.yaml")["task"]
    with_own_tokens(task, folder)
    return task


def network_with(weights: "Mapping[str, Tensor]", folder: Path, config: "Config", spec: "TaskSpec") -> "nn.Module":
    """A run's network on the CPU, with weights of it (`run.warm_start.run_weights`).

    Args:
        spec: of the task that it was trained on; data that is longer must not make another network.

    Raises:
        RunError: the weights do not fit.
    """
    from attnlab.run.runtime import make_network

    network = make_network(config, spec)
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        raise RunError(f"the weights of {folder} do not fit the network of its config.yaml: {error}") from None
    return network
