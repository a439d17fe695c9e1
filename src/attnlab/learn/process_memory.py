"""Resident memory of this process, as the system reports it. Imports no torch."""

import contextlib
import re
import resource
import sys
from pathlib import Path


def peak_resident_bytes() -> int:
    """Peak resident memory since the start, or on Linux since its last reset."""
    if (resident := from_proc("self/status", "VmHWM")) is not None:
        return resident
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def from_proc(file: str, name: str) -> int | None:
    """Bytes of an entry of a file in /proc, which only Linux has."""
    with contextlib.suppress(OSError):
        if found := re.search(rf"{name}:\s+(\d+) kB", Path("/proc", file).read_text()):
            return int(found[1]) * 1024
    return None
