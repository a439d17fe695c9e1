"""Memory of this process and its device: peak and free memory, memory kept for later steps, memory of earlier jobs."""

import contextlib
import ctypes
import gc
import re
import resource
import sys
from itertools import count
from pathlib import Path

import torch

from attnlab.kernels.compiled_step import drop_graphs

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
"""options of mallopt(3)"""
_earlier = count()


def reset_peak_memory(device: torch.device) -> None:
    """Reset the peak, so that an earlier job of a sweep does not count."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with contextlib.suppress(OSError):
        # Linux: "5" resets VmHWM. On other systems the peak since the start of the process is reported.
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory_bytes(device: torch.device) -> int:
    """Peak memory since the reset: allocated on the GPU, or resident on the CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return peak_resident_bytes()


def free_memory_bytes(device: torch.device) -> int:
    """Free memory of the GPU, or of the machine; `sys.maxsize` if the system does not report it."""
    if device.type == "cuda":
        # memory that torch has reserved but not allocated is free as well
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    available = _from_proc("meminfo", "MemAvailable")
    return sys.maxsize if available is None else available


def peak_resident_bytes() -> int:
    """Peak resident memory since the start, or on Linux since its last reset."""
    if (resident := _from_proc("self/status", "VmHWM")) is not None:
        return resident
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _from_proc(file: str, name: str) -> int | None:
    """Bytes of an entry of a file in /proc, which only Linux has."""
    with contextlib.suppress(OSError):
        if match := re.search(rf"{name}:\s+(\d+) kB", Path("/proc", file).read_text()):
            return int(match[1]) * 1024
    return None


def keep_freed_memory() -> bool:
    """Lets glibc keep freed memory; returns whether the allocator is glibc's.

    By default it gives back tensors from 32 MiB on. Fetching them page by page at every step can take as long as the
    computation: a step of LRA-Text (transnormer_t2, batch 32) took 1.94 s and, with kept memory, 1.44 s of processor
    time (one thread of a busy AMD EPYC; the peak of the process was 4.5 and 4.8 GB). Small tensors gain nothing.
    """
    try:
        set_option = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    # No tensor in memory of its own, which is given back at once, and up to 2 GiB kept at the end of the heap.
    return bool(set_option(_MMAP_MAX, 0) and set_option(_TRIM_THRESHOLD, 2**31 - 1))


def free_earlier_jobs() -> None:
    """Frees data, networks and recorded graphs of earlier jobs, before the next one takes memory; to be called at the
    start of every job.

    The objects of a job refer to each other, so they live until the garbage collector runs, and no lack of memory makes
    it run.
    """
    if not next(_earlier):
        return
    drop_graphs()
    gc.collect()
    # What is alive between jobs, mostly modules, is not searched again.
    gc.freeze()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
