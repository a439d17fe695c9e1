"""Memory use of this process and its device: the peak since a reset, and the free memory."""

import contextlib
import sys
from pathlib import Path

import torch

from attnlab.learn.process_memory import from_proc, peak_resident_bytes


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
    available = from_proc("meminfo", "MemAvailable")
    return sys.maxsize if available is None else available
