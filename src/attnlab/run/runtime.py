"""From a checked configuration to the objects of a run: device, task, network."""

import copy
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from attnlab.attention.base import TooLong
from attnlab.config.schema import Config, Paths
from attnlab.data.examples import held_bytes, resident
from attnlab.data.files.fetch import Folders
from attnlab.data.task_spec import TaskSpec
from attnlab.nn.build_network import build_network
from attnlab.run import memory_use
from attnlab.run.run_folder import RunError
from attnlab.tasks.base import Prepared, Task, make_task

# As torch or OMP_NUM_THREADS set it; a job of a sweep must not inherit what an earlier one chose.
DEFAULT_THREADS = torch.get_num_threads()

SHARE_OF_FREE = 0.25
"""of a GPU's free memory that data may take by itself; the rest is for the network, and for other runs there"""


def choose_device(wanted: str, threads: int | None, tf32: bool | None = None) -> torch.device:
    """The device of a run; what the whole process shares is set on the way, for each job of a sweep anew.

    Args:
        threads: on a CPU; None = as torch or OMP_NUM_THREADS says.
        tf32: whether a GPU computes float32 products in TensorFloat-32; means nothing on a CPU.

    Raises:
        RunError: trainer.device=cuda without a usable GPU.
    """
    torch.set_num_threads(threads or DEFAULT_THREADS)
    available = torch.cuda.is_available()
    if wanted == "cuda" and not available:
        raise RunError("trainer.device=cuda, but torch sees no usable GPU here; use trainer.device=cpu or auto")
    on_gpu = wanted != "cpu" and available
    # Torch's own default is exact for matrix products and TensorFloat-32 for convolutions; ours is one for both.
    torch.set_float32_matmul_precision("high" if on_gpu and tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = bool(on_gpu and tf32)
    if not on_gpu:
        return torch.device("cpu")
    # Equal seeds give equal numbers: kernels that cannot promise it say so. cuBLAS promises it with a fixed workspace.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    return torch.device("cuda", torch.cuda.current_device())


def require_compilation(device: torch.device) -> None:
    """Try what `trainer.compile` needs on a function of one line, before anything long begins.

    Raises:
        RunError: no working compiler.
    """
    try:
        torch.compile(lambda x: x + 1)(torch.zeros(1, device=device))
    except Exception as error:
        needs = "Triton and a C compiler" if device.type == "cuda" else "a C++ compiler (g++, or the one CXX names)"
        raise RunError(
            f"trainer.compile=true, but torch cannot compile here ({_first_line(error)}); it needs {needs}: install "
            "it, or write trainer.compile=false"
        ) from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def seed_everything(seed: int) -> None:
    """Initialisation and dropout; the order of data has a generator of its own."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def prepare(task: Task, paths: Paths) -> Prepared:
    """Data ready to use; waits for another process that prepares the same."""
    return task.prepare(Folders(data=Path(paths.data).expanduser(), cache=Path(paths.cache).expanduser()))


class _Kept:
    """What the last run of this process was trained on."""

    options: Any = None
    task: tuple[Task, Prepared] | None = None


def prepared_task(config: Config) -> tuple[Task, Prepared]:
    """The task of a run and its data, ready to use.

    Jobs of a sweep that differ in model or seed only read the same data: it is handed on from one to the next, which
    may read it and nothing else.
    """
    wanted = (config.task, config.paths.data, config.paths.cache)
    if _Kept.task is None or _Kept.options != wanted:
        # The former is let go first: two tasks at once may be more than fits in memory.
        _Kept.task = None
        task = make_task(config.task)
        _Kept.options, _Kept.task = copy.deepcopy(wanted), (task, prepare(task, config.paths))
    return _Kept.task


def place_data(prepared: Prepared, device: torch.device, wanted: bool | Literal["auto"]) -> Prepared:
    """The task with its data on the device, where batches are then gathered (`trainer.data_on_device`)."""
    if wanted == "auto":
        free = memory_use.free_memory_bytes(device) if device.type == "cuda" else 0
        wanted = held_bytes(prepared.subsets.values()) <= SHARE_OF_FREE * free
    return replace(prepared, subsets=resident(prepared.subsets, device)) if wanted else prepared


def make_network(config: Config, spec: TaskSpec) -> nn.Module:
    """A freshly initialised network, a function of config and seed.

    Raises:
        RunError: options of a class that do not go together.
    """
    seed_everything(config.seed)
    try:
        network = build_network(config.backbone, config.model, spec)
    except TooLong:
        raise
    except ValueError as error:
        raise RunError(f"the network of model {config.model.name} cannot be built: {error}") from error
    return network.double() if config.train.precision == "64-true" else network
