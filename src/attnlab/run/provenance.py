"""What a result records about where it was made."""

import contextlib
import platform
import re
import resource
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import attnlab
from attnlab.config.suggest import command_line
from attnlab.run.git import git_state

PACKAGES = ("torch", "pytorch-lightning", "hydra-core", "omegaconf", "numpy", "wandb")


def versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {"attnlab": attnlab.__version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def hardware(device: torch.device) -> dict[str, Any]:
    """Processor, threads and accelerator."""
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {
        "device": str(device),
        "gpu": gpu,
        "cpu": _cpu_name(),
        "threads": torch.get_num_threads(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor()
    )


def reset_peak_memory(device: torch.device) -> None:
    """Forget the peak of what this process did before: an earlier job of a sweep."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with contextlib.suppress(OSError):
        # Linux: "5" resets VmHWM. Elsewhere the peak is that of the whole process.
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory_bytes(device: torch.device) -> int:
    """Largest memory since the reset: allocated on the GPU, or resident on the CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    with contextlib.suppress(OSError):
        found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
        if found:
            return int(found[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def free_memory_bytes(device: torch.device) -> int:
    """Memory that is free on the GPU, or on the machine; without limit where the system does not say."""
    if device.type == "cuda":
        # what torch holds and does not use is free as well
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    with contextlib.suppress(OSError):
        found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
        if found:
            return int(found[1]) * 1024
    return sys.maxsize


def command() -> str:
    """The command line, to be repeated."""
    return command_line("python", *sys.argv)


def origin(device: torch.device) -> dict[str, Any]:
    """Versions, commit, hardware, command and time: where numbers come from."""
    return {
        "versions": versions(),
        "git": git_state(),
        "hardware": hardware(device),
        "command": command(),
        "written": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }
