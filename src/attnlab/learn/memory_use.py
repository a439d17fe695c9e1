"""Memory use of this process and its device: the peak since a reset, and the free memory."""

import contextlib
import re
import resource
import sys
from pathlib import Path

import torch


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
    if (resident := _from_proc("self/status", "VmHWM")) is not None:
        return resident
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def free_memory_bytes(device: torch.device) -> int:
    """Free memory of the GPU, or of the machine; `sys.maxsize` if the system does not report it."""
    if device.type == "cuda":
        # memory that torch has reserved but not allocated is free as well
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    available = _from_proc("meminfo", "MemAvailable")
    return sys.maxsize if available is None else available


def _from_proc(file: str, name: str) -> int | None:
    """Bytes of an entry of a file in /proc, which only Linux has."""
    with contextlib.suppress(OSError):
        if found := re.search(rf"{name}:\s+(\d+) kB", Path("/proc", file).read_text()):
            return int(found[1]) * 1024
    return None
