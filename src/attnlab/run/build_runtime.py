"""Makes the objects of a run from its configuration: task with data, network."""

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from attnlab.attention.base import TooLong
from attnlab.config.schema import Config, Paths
from attnlab.data.examples import Examples, held_bytes, resident
from attnlab.data.files.fetch import Folders
from attnlab.data.task_spec import TaskSpec
from attnlab.learn.devices import memory_use
from attnlab.learn.metrics import shortcut_scores
from attnlab.nn.output_head import Network
from attnlab.run.run_folder import RunError
from attnlab.tasks.base import Prepared, Task, make_task
from attnlab.tasks.kinds.base import build_network

SHARE_OF_FREE = 0.25
"""of the free memory of a GPU; larger data stays on the CPU, since the network and other runs need the rest"""


def prepare(task: Task, paths: Paths, only_read: bool = True) -> Prepared[Examples]:
    """Prepare the data of a task; with `only_read` nothing is written into paths.data, a stranger's choice perhaps."""
    prepared = task.prepare(Folders(Path(paths.data), Path(paths.cache), only_read))
    extents = prepared.subsets["train"].extents()
    if extents is None:
        return prepared
    return replace(prepared, spec=replace(prepared.spec, train_length=int(extents.max(initial=0))))


_last_task: dict[str, tuple[Task, Prepared[Examples]]] = {}
"""task and data of the last run of this process, by its options"""


def prepared_task(config: Config) -> tuple[Task, Prepared[Examples]]:
    """Task and prepared data of a run, with the scores of shortcuts; kept for a next job that has the same."""
    wanted = repr((config.task, config.paths.data, config.paths.cache))
    if wanted not in _last_task:
        # Freed first: two tasks at once may be more than fits in memory.
        _last_task.clear()
        task = make_task(config.task)
        prepared = prepare(task, config.paths, only_read=False)
        _last_task[wanted] = task, replace(prepared, shortcuts=shortcut_scores(task, prepared))
    return _last_task[wanted]


def place_data(
    prepared: Prepared[Examples], device: torch.device, wanted: bool | Literal["auto"]
) -> Prepared[Examples]:
    """Moves the data of a task to the device if `trainer.data_on_device` says so; batches are then gathered there."""
    if wanted == "auto":
        free = memory_use.free_memory_bytes(device) if device.type == "cuda" else 0
        wanted = held_bytes(prepared.subsets.values()) <= SHARE_OF_FREE * free
    return replace(prepared, subsets=resident(prepared.subsets, device)) if wanted else prepared


def position_notes(config: Config, spec: TaskSpec) -> list[str]:
    """A note where positions are learned and other subsets have longer sequences than training."""
    longest = max(spec.max_input_length, spec.max_output_length)
    if (config.model.positions or config.backbone.positions) != "learned" or not 0 < spec.train_length < longest:
        return []
    first = spec.train_length + 1
    return [f"note: positions are learned, and no training sequence has positions {first:,} to {longest:,}"]


def make_network(config: Config, spec: TaskSpec) -> Network:
    """A newly initialised network, of configuration and seed only; a RunError if options exclude each other."""
    # and dropout; the order of batches has another generator
    random.seed(config.seed)
    np.random.seed(config.seed % 2**32)
    torch.manual_seed(config.seed)
    try:
        network = build_network(config.backbone, config.model, spec)
    except TooLong:
        raise
    except ValueError as error:
        raise RunError(f"the network of model {config.model.name} cannot be built: {error}") from error
    return network.double() if config.train.precision == "64-true" else network


def network_with(weights: Mapping[str, torch.Tensor], folder: Path, config: Config, spec: TaskSpec) -> Network:
    """The network of a run on the CPU, with its weights (`run_weights`); a RunError if they do not fit.

    Args:
        spec: specification of the task that it was trained on; longer data must not change the network.
    """
    network = make_network(config, spec)
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        raise RunError(f"the weights of {folder} do not fit the network of its config.yaml: {error}") from None
    return network
