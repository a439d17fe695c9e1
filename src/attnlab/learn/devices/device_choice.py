"""The device of a process: its choice, its threads, and the settings of torch that a run asks for."""

import os
import socket

import torch

from attnlab.config.message_text import first_line
from attnlab.config.problem import UserError
from attnlab.config.schema import Config
from attnlab.kernels.compiled_step import FIRST_ON_A_GPU
from attnlab.kernels.inductor_tiles import FIRST_SAFE, NO_VECTORS, cpu_options
from attnlab.learn.devices import memory_use
from attnlab.learn.devices.memory_use import keep_freed_memory
from attnlab.learn.devices.process_group import ALONE, Ranks

# As set by torch or OMP_NUM_THREADS; a job of a sweep must not inherit the number that an earlier job chose.
DEFAULT_THREADS = torch.get_num_threads()

CUBLAS_WORKSPACES = (":4096:8", ":16:8")
"""values of CUBLAS_WORKSPACE_CONFIG with which cuBLAS is deterministic"""
_GIVEN_GPUS = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE")
"""variables of a job of Slurm that has GPUs"""


class DeviceError(UserError):
    """A device that is missing, or that cannot do what a run asks for."""


def device_of(config: Config, ranks: Ranks = ALONE) -> torch.device:
    """The device that a process trains on, set up; a DeviceError if it is missing or cannot do what is asked for."""
    trainer, local = config.trainer, ranks.layout.local if ranks.world > 1 else None
    threads = trainer.threads or ranks.layout.threads(os.environ)
    device = choose_device(trainer.device, threads, config.train.tf32, trainer.deterministic, local)
    if device.type == "cpu" and config.train.precision == "16-mixed":
        raise DeviceError("train.precision=16-mixed needs a GPU: on a CPU use 32-true or bf16-mixed")
    if trainer.compile and ranks.world > 1 and device.type == "cuda":
        raise DeviceError(
            "trainer.compile=true: CUDA graphs are not tested with the gradients of several GPUs; write "
            "trainer.compile=false, or trainer.devices=1"
        )
    if trainer.compile:
        require_compilation(device)
    memory_use.reset_peak_memory(device)
    return device


def choose_device(
    wanted: str, threads: int | None, tf32: bool | None = None, deterministic: bool = True, local: int | None = None
) -> torch.device:
    """Returns the device of a run, and sets the number of threads and the precision of this process for it.

    Args:
        threads: on a CPU; None = as set by torch or OMP_NUM_THREADS.
        tf32: whether a GPU computes float32 products in TensorFloat-32; not used on a CPU.
        deterministic: whether equal seeds give equal numbers on a GPU; not used on a CPU.
        local: number of this process on its machine, which takes the GPU of this number, or the only one that it sees;
            None: the current GPU.

    Raises:
        DeviceError: trainer.device=cuda without a usable GPU; a setting of cuBLAS that is not deterministic.
    """
    torch.set_num_threads(threads or DEFAULT_THREADS)
    available = torch.cuda.is_available()
    if wanted == "cuda" and not available:
        job = os.environ.get("SLURM_JOB_ID")
        if job and any(os.environ.get(name) for name in _GIVEN_GPUS):
            raise DeviceError(
                f"job {job} of Slurm has a GPU on {socket.gethostname()}, but torch sees no usable one (no driver, or "
                "a torch without CUDA); trainer.device=cpu trains without"
            )
        ask = f"; job {job} of Slurm has a GPU if it asks for one (--gpus-per-node=1, or --gres)" if job else ""
        raise DeviceError(
            f"trainer.device=cuda, but torch sees no usable GPU here; use trainer.device=cpu or auto{ask}"
        )
    on_gpu = wanted != "cpu" and available
    # The default of torch is float32 for matrix products and TensorFloat-32 for convolutions; here both are equal.
    torch.set_float32_matmul_precision("high" if on_gpu and tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = bool(on_gpu and tf32)
    _use_deterministic_kernels(bool(on_gpu and deterministic))
    if not on_gpu:
        keep_freed_memory()
        return torch.device("cpu")
    if local is not None:
        torch.cuda.set_device(local if local < torch.cuda.device_count() else 0)
    return torch.device("cuda", torch.cuda.current_device())


def require_distinct_devices(ranks: Ranks, device: torch.device) -> None:
    """Refuse (`Ranks.refuse`) processes of a run that would share a GPU, or of which only some have one."""
    on_gpu = device.type == "cuda"
    gpu = str(torch.cuda.get_device_properties(device).uuid) if on_gpu and ranks.world > 1 else ""
    places = ranks.gather((socket.gethostname(), gpu))
    without = [rank for rank, (_, gpu_id) in enumerate(places) if not gpu_id]
    if 0 < len(without) < ranks.world:
        rank = without[0]
        ranks.refuse(
            DeviceError(f"rank {rank} on {places[rank][0]} has no GPU, and others have one; write trainer.device=cpu")
        )
    if len(set(places)) < ranks.world and not without:
        place = next(place for place in places if places.count(place) > 1)
        sharing = [rank for rank, rank_place in enumerate(places) if rank_place == place]
        ranks.refuse(
            DeviceError(
                f"ranks {', '.join(map(str, sharing))} on {place[0]} would share a GPU; expected one for each process: "
                "use fewer trainer.devices, or ask for more GPUs"
            )
        )


def _use_deterministic_kernels(wanted: bool) -> None:
    """Equal seeds give equal numbers, and an operation without a deterministic kernel is an error; or neither.

    Not as a warning: fused attention would then keep its other kernel for gradients.
    """
    if wanted:
        # Read when CUDA starts, so before the first use of a GPU.
        chosen = os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", CUBLAS_WORKSPACES[0])
        if chosen not in CUBLAS_WORKSPACES:
            raise DeviceError(
                f"CUBLAS_WORKSPACE_CONFIG={chosen}: equal seeds would give unequal numbers; unset it, or use "
                f"{' or '.join(CUBLAS_WORKSPACES)}, or write trainer.deterministic=false"
            )
        # a property of the module's class, which the checker does not see
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    if wanted or torch.are_deterministic_algorithms_enabled():
        torch.use_deterministic_algorithms(wanted)


def require_compilation(device: torch.device) -> None:
    """Compile one line before data is prepared; a DeviceError without a compiler, or if torch is too old for a GPU."""
    if device.type == "cuda" and torch.__version__ < FIRST_ON_A_GPU:
        raise DeviceError(
            f"trainer.compile=true needs torch {FIRST_ON_A_GPU} or newer on a GPU, and this is {torch.__version__}: "
            "older ones cannot leave parts of a step out of a CUDA graph; install a newer torch, or write "
            "trainer.compile=false"
        )
    try:
        torch.compile(lambda x: x + 1)(torch.zeros(1, device=device))
    except Exception as error:
        needs = "Triton and a C compiler" if device.type == "cuda" else "a C++ compiler (g++, or the one CXX names)"
        raise DeviceError(
            f"trainer.compile=true, but torch cannot compile here ({first_line(error)}); it needs {needs}: install "
            "it, or write trainer.compile=false"
        ) from error


def speed_notes(config: Config, device: torch.device) -> list[str]:
    """A line if steps are compiled without the vector instructions of the CPU."""
    if not config.trainer.compile or device.type != "cpu" or cpu_options() != NO_VECTORS:
        return []
    return [
        f"note: trainer.compile=true: torch {torch.__version__} may compute some sums wrongly with a CPU's vector "
        "instructions (pytorch issues 181690 and 196681), so steps are compiled without them and are slow; write "
        f"trainer.compile=false, or install torch {FIRST_SAFE}, for which this is corrected here"
    ]


def compile_notes(config: Config) -> list[str]:
    """What compiled steps take, before the first one; nothing without `trainer.compile`."""
    if not config.trainer.compile:
        return []
    notes = [
        "compiling the training step: the first one takes about a minute, and so does the first of every new length; "
        "Ctrl-C waits for the end of the step, a second one does not"
    ]
    if (limit := config.train.max_tokens) is not None:
        notes.append(
            f"note: batches above train.max_tokens={limit} go in pieces of many lengths, which are not compiled"
        )
    if (batches := config.train.accumulate) > 1:
        notes.append(f"note: train.accumulate={batches}: a step goes in pieces of many lengths, which are not compiled")
    return notes
