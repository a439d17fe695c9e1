"""Number of CPU cores that this process may use: affinity (taskset, Slurm) and CPU limits of cgroups (containers)."""

import contextlib
import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_SYSTEM = Path("/")


def usable_cores(system: Path = _SYSTEM) -> int:
    """Number of cores, at least 1; `system` is the folder that holds `proc` and `sys`."""
    # macOS has no affinity
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limits = [math.ceil(limit) for folder in _cgroups(system) if (limit := _limit(folder)) is not None]
    return max(1, min([here, *limits]))


def threads_of_environment() -> int | None:
    """OMP_NUM_THREADS, of which torch reads the first number; None if it is not set."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isdigit() and int(first) else None


def _cgroups(system: Path) -> Iterator[Path]:
    """Folders of the cgroups that limit this process: its own and those above. In a container its own is the top."""
    mount, lines = system / "sys/fs/cgroup", []
    with contextlib.suppress(OSError):
        lines = (system / "proc/self/cgroup").read_text().splitlines()
    for line in lines:
        # version 2: 0::/user.slice/job; version 1: 4:cpu,cpuacct:/docker/1f
        _, controllers, path = line.split(":", 2)
        if not controllers or "cpu" in controllers.split(","):
            top, inside = mount / ("cpu" if controllers else ""), PurePosixPath(path.lstrip("/"))
            yield from (top / folder for folder in (inside, *inside.parents))


def _limit(folder: Path) -> float | None:
    """CPU time that a cgroup may use, in cores; None without a limit."""
    with contextlib.suppress(OSError, ValueError):
        # "max 100000" without a limit, else quota and period
        quota, period = (folder / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    with contextlib.suppress(OSError, ValueError):
        time, interval = (int((folder / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
        return time / interval if time > 0 else None
    return None
