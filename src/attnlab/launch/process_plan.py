"""Number of processes in which the jobs of a sweep run, and of the threads of each.

Nothing here imports torch on a machine without a GPU.
"""

import ctypes
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.config.launcher_options import DEFAULT
from attnlab.launch.group_task import GroupTask
from attnlab.learn.usable_cores import usable_cores

LOCAL = "packed_local"


@dataclass(frozen=True)
class ProcessPlan:
    """How the jobs of a sweep run at once.

    processes:  at least 2.
    threads:    of a job without `trainer.threads`; None = as OMP_NUM_THREADS says.
    cores:      that this process may use.
    per_job:    smallest and largest number of threads of the jobs.
    is_default: chosen by `hydra/launcher=auto`.
    gpus:       over which the processes are spread; empty: as this process sees them.
    """

    processes: int
    threads: int | None
    cores: int
    per_job: tuple[int, int]
    is_default: bool
    gpus: tuple[str, ...] = ()

    def line(self, jobs: int) -> str:
        """Line to print before the first of so many unfinished jobs; empty if there is nothing to say."""
        processes, (least, most) = min(self.processes, jobs), self.per_job
        threads = _count(most, "thread") if least == most else f"{least} to {most} threads"
        cores = _count(self.cores, "core")
        if self.is_default:
            how = f"jobs run in {_count(processes, 'process')} on {cores}, {threads} each (hydra/launcher=joblib)"
            return f"no GPU here: {how}; hydra/launcher=basic runs one after the other"
        if processes * most > self.cores:
            fitting = _count(max(1, self.cores // most), "process")
            how = f"{_count(processes, 'process')} with {threads} each share {cores}"
            return f"note: {how}, which is no faster than {fitting} and takes more memory (hydra.launcher.n_jobs)"
        return ""


def process_plan(launcher: Mapping[str, Any], tasks: Sequence[GroupTask]) -> ProcessPlan | None:
    """The plan of a sweep; None if its tasks run in this process, one after the other.

    It depends on all tasks, finished ones too: a run that is resumed has as many threads as before, and so equal bits.
    """
    is_default = launcher["name"] == DEFAULT
    if launcher["name"] not in ("joblib", LOCAL) and not is_default:
        return None
    cores, given = usable_cores(), _threads_of_environment()
    gpus = visible_gpus() if launcher["name"] == LOCAL else _named_gpus()
    set_threads = {job.typed.trainer.threads or given for task in tasks for job in task.jobs}
    fitting = max(1, cores // max(threads or 1 for threads in set_threads))
    asked = -1 if is_default else launcher["n_jobs"]
    if asked is None:
        asked = len(gpus) or -1
    wanted = asked if asked > 0 else max(1, fitting + 1 + asked)
    processes = min(wanted, len({frozenset(task.folders) for task in tasks}))
    if processes < 2 or (is_default and gpu_here()):
        return None
    threads = None if given else max(1, cores // processes)
    each = {own or threads or 1 for own in set_threads}
    return ProcessPlan(processes, threads, cores, (min(each), max(each)), is_default, gpus)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}{'es' if what.endswith('s') else 's'}"


def _threads_of_environment() -> int | None:
    """OMP_NUM_THREADS, of which torch reads the first number; None if it is not set."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isdigit() and int(first) else None


def _named_gpus() -> tuple[str, ...]:
    """GPUs that CUDA_VISIBLE_DEVICES names; empty if it names fewer than two."""
    named = tuple(os.environ.get("CUDA_VISIBLE_DEVICES", "").split(","))
    return named if len(named) > 1 else ()


def visible_gpus() -> tuple[str, ...]:
    """All GPUs that torch sees, as CUDA_VISIBLE_DEVICES names them."""
    if named := _named_gpus():
        return named
    if not gpu_here():
        return ()
    import torch

    # with one name in CUDA_VISIBLE_DEVICES there is one GPU, which is 0 for torch and has that name here
    count = torch.cuda.device_count()
    return (os.environ.get("CUDA_VISIBLE_DEVICES", "0"),) if count == 1 else tuple(map(str, range(count)))


def gpu_driver_here() -> bool:
    """Whether a driver is installed without which torch sees no GPU: CUDA's or ROCm's."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return Path("/dev/kfd").exists()
    return True


def gpu_here() -> bool:
    """Whether torch sees a GPU; imports torch only if a driver is installed."""
    if not gpu_driver_here():
        return False
    import torch

    return torch.cuda.is_available()
