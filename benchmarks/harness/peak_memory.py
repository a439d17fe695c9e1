"""Peak memory of a call, on the CPU and on a GPU."""

import contextlib
import ctypes
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from attnlab.learn import memory_use

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # of mallopt(3)


def process_peak(device: torch.device, compiled: bool) -> int:
    """Returns the peak memory of this process in bytes since the last reset.

    On a GPU what torch's allocator gave out; with compiled steps what it reserved, since a CUDA graph computes in
    memory that is reserved as it is recorded and is not given out when it is replayed.
    """
    if compiled and device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    return memory_use.peak_memory_bytes(device)


def graph_memory(device: torch.device) -> int:
    """Returns the bytes that CUDA graphs hold: reserved, and neither given out nor free for other uses."""
    if device.type != "cuda":
        return 0
    torch.cuda.empty_cache()
    return torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def peak_of(run: Callable[[], object], device: torch.device) -> float:
    """Returns the peak memory of a call in bytes, less the memory in use before it.

    GPU: what torch's allocator gave out, which is nothing while a CUDA graph is replayed (see `graph_memory`). CPU,
    Linux: resident memory; freed memory is given back first and the kernel's record of the peak is reset. nan
    elsewhere.
    """
    try:
        before = _in_use(device)
    except (OSError, TypeError):
        return math.nan
    memory_use.reset_peak_memory(device)
    run()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return max(memory_use.peak_memory_bytes(device) - before, 0)


def _in_use(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return int(re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024


@contextlib.contextmanager
def memory_kept() -> Iterator[None]:
    """Lets glibc keep freed memory for the next call; does nothing without glibc.

    By default it gives back tensors above 32 MiB, and fetching them page by page at every call can take longer than
    what is computed with them: times jump at the length at which a form's tensors pass that size.
    """
    try:
        set_option = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        yield
        return
    for option, value in ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, 2**31 - 1)):
        set_option(option, value)
    try:
        yield
    finally:
        # The defaults of mallopt(3).
        for option, value in ((_M_MMAP_MAX, 65536), (_M_TRIM_THRESHOLD, 128 * 1024)):
            set_option(option, value)
