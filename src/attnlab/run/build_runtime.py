"""Makes the objects of a run from its configuration: device, task with data, network."""

import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from attnlab.attention.base import TooLong
from attnlab.config.message_text import first_line
from attnlab.config.schema import Config, Paths
from attnlab.data.examples import Examples, held_bytes, resident
from attnlab.data.files.fetch import Folders
from attnlab.data.task_spec import TaskSpec
from attnlab.learn import memory_use
from attnlab.learn.compiled_step import FIRST_ON_A_GPU
from attnlab.learn.freed_memory import keep_freed_memory
from attnlab.nn.build_network import build_network
from attnlab.nn.output_head import Network
from attnlab.run.run_folder import RunError
from attnlab.tasks.base import Prepared, Task, make_task

# As set by torch or OMP_NUM_THREADS; a job of a sweep must not inherit the number that an earlier job chose.
DEFAULT_THREADS = torch.get_num_threads()

SHARE_OF_FREE = 0.25
"""of the free memory of a GPU; larger data stays on the CPU, since the network and other runs need the rest"""

CUBLAS_WORKSPACES = (":4096:8", ":16:8")
"""values of CUBLAS_WORKSPACE_CONFIG with which cuBLAS is deterministic"""


def choose_device(
    wanted: str, threads: int | None, tf32: bool | None = None, deterministic: bool = True
) -> torch.device:
    """Returns the device of a run, and sets the number of threads and the precision of this process for it.

    Args:
        threads: on a CPU; None = as set by torch or OMP_NUM_THREADS.
        tf32: whether a GPU computes float32 products in TensorFloat-32; not used on a CPU.
        deterministic: whether equal seeds give equal numbers on a GPU; not used on a CPU.

    Raises:
        RunError: trainer.device=cuda without a usable GPU; a setting of cuBLAS that is not deterministic.
    """
    torch.set_num_threads(threads or DEFAULT_THREADS)
    available = torch.cuda.is_available()
    if wanted == "cuda" and not available:
        raise RunError("trainer.device=cuda, but torch sees no usable GPU here; use trainer.device=cpu or auto")
    on_gpu = wanted != "cpu" and available
    # The default of torch is float32 for matrix products and TensorFloat-32 for convolutions; here both are equal.
    torch.set_float32_matmul_precision("high" if on_gpu and tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = bool(on_gpu and tf32)
    _use_deterministic_kernels(bool(on_gpu and deterministic))
    if not on_gpu:
        keep_freed_memory()
    return torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")


def _use_deterministic_kernels(wanted: bool) -> None:
    """Equal seeds give equal numbers, and an operation without a deterministic kernel is an error; or neither.

    Not as a warning: fused attention would then keep its other kernel for gradients.
    """
    if wanted:
        # Read when CUDA starts, so before the first use of a GPU.
        chosen = os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", CUBLAS_WORKSPACES[0])
        if chosen not in CUBLAS_WORKSPACES:
            raise RunError(
                f"CUBLAS_WORKSPACE_CONFIG={chosen}: equal seeds would give unequal numbers; unset it, or use "
                f"{' or '.join(CUBLAS_WORKSPACES)}, or write trainer.deterministic=false"
            )
        # a property of the module's class, which the checker does not see
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    if wanted or torch.are_deterministic_algorithms_enabled():
        torch.use_deterministic_algorithms(wanted)


def require_compilation(device: torch.device) -> None:
    """Check that torch can compile here, with a function of one line, before data is prepared.

    Raises:
        RunError: no working compiler, or a torch that is too old for a GPU.
    """
    if device.type == "cuda" and torch.__version__ < FIRST_ON_A_GPU:
        raise RunError(
            f"trainer.compile=true needs torch {FIRST_ON_A_GPU} or newer on a GPU, and this is {torch.__version__}: "
            "older ones cannot leave parts of a step out of a CUDA graph; install a newer torch, or write "
            "trainer.compile=false"
        )
    try:
        torch.compile(lambda x: x + 1)(torch.zeros(1, device=device))
    except Exception as error:
        needs = "Triton and a C compiler" if device.type == "cuda" else "a C++ compiler (g++, or the one CXX names)"
        raise RunError(
            f"trainer.compile=true, but torch cannot compile here ({first_line(error)}); it needs {needs}: install "
            "it, or write trainer.compile=false"
        ) from error


def seed_everything(seed: int) -> None:
    """Seed initialisation and dropout; the order of batches has another generator."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def prepare(task: Task, paths: Paths) -> Prepared[Examples]:
    """Prepare the data of a task; waits for another process that prepares the same data."""
    prepared = task.prepare(Folders(data=Path(paths.data).expanduser(), cache=Path(paths.cache).expanduser()))
    extents = prepared.subsets["train"].extents()
    if extents is None:
        return prepared
    return replace(prepared, spec=replace(prepared.spec, train_length=int(extents.max(initial=0))))


_last_task: dict[str, tuple[Task, Prepared[Examples]]] = {}
"""task and data of the last run of this process, by its options"""


def prepared_task(config: Config) -> tuple[Task, Prepared[Examples]]:
    """Returns the task of a run and its prepared data.

    The next job of a sweep gets the same objects if its task and paths are equal. They must not be changed.
    """
    wanted = repr((config.task, config.paths.data, config.paths.cache))
    if wanted not in _last_task:
        # Freed first: two tasks at once may be more than fits in memory.
        _last_task.clear()
        task = make_task(config.task)
        _last_task[wanted] = task, prepare(task, config.paths)
    return _last_task[wanted]


def place_data(
    prepared: Prepared[Examples], device: torch.device, wanted: bool | Literal["auto"]
) -> Prepared[Examples]:
    """Moves the data of a task to the device if `trainer.data_on_device` says so; batches are then gathered there."""
    if wanted == "auto":
        free = memory_use.free_memory_bytes(device) if device.type == "cuda" else 0
        wanted = held_bytes(prepared.subsets.values()) <= SHARE_OF_FREE * free
    return replace(prepared, subsets=resident(prepared.subsets, device)) if wanted else prepared


def make_network(config: Config, spec: TaskSpec) -> Network:
    """Returns a newly initialised network, which depends on the configuration and its seed only.

    Raises:
        RunError: options of a class that exclude each other.
    """
    seed_everything(config.seed)
    try:
        network = build_network(config.backbone, config.model, spec)
    except TooLong:
        raise
    except ValueError as error:
        raise RunError(f"the network of model {config.model.name} cannot be built: {error}") from error
    return network.double() if config.train.precision == "64-true" else network
