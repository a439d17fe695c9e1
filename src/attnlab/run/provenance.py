"""Provenance of a result: versions, commit, hardware, command and time. Only `hardware` imports torch."""

import contextlib
import platform
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attnlab
from attnlab.config.message_text import command_line

if TYPE_CHECKING:
    import torch

COMPARABLE_VERSIONS = (attnlab.__version__, "0.2.0")
"""versions of attnlab whose runs give the same numbers but for rounding, so that reports count them together"""
PACKAGES = ("torch", "pytorch-lightning", "hydra-core", "omegaconf", "numpy", "wandb")


def versions() -> dict[str, str | None]:
    """Versions of attnlab, Python and the main packages; None for a package that is not installed."""
    installed = {"attnlab": attnlab.__version__, "python": platform.python_version()} | dict.fromkeys(PACKAGES)
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            installed[package] = version(package)
    return installed


def git_state() -> dict[str, Any]:
    """Commit, and whether code or configuration has uncommitted changes; nulls outside a checkout of attnlab."""
    root = Path(attnlab.__file__).parent

    def git(*arguments: str) -> str | None:
        command = ["git", "-C", str(root), *arguments]
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
        except (OSError, subprocess.SubprocessError):
            return None

    if git("ls-files", "--error-unmatch", "__init__.py") is None:
        return {"commit": None, "dirty": None}
    changes = git("status", "--porcelain", "--", ":/src", ":/conf")
    return {"commit": git("rev-parse", "HEAD"), "dirty": None if changes is None else bool(changes)}


def commit_text(git: Mapping[str, Any]) -> str:
    """A commit in short, with a word on uncommitted changes."""
    return f"{str(git.get('commit') or 'unknown')[:10]}{' with changes' if git.get('dirty') else ''}"


def hardware(device: "torch.device") -> dict[str, Any]:
    """Device, GPU, CPU, number of threads and system."""
    import torch

    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {
        "device": str(device),
        "gpu": gpu,
        "cpu": _cpu_name(),
        "threads": torch.get_num_threads(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def _cpu_name() -> str:
    with contextlib.suppress(OSError):
        if name := re.search(r"^model name.*?:(.*)", Path("/proc/cpuinfo").read_text(), re.MULTILINE):
            return name[1].strip()
    return platform.processor()


def _command() -> str:
    """The command line of this process, to paste into a shell."""
    program = Path(sys.argv[0]).name
    # a console script of the installed package, or a file for Python
    return command_line(*([program] if program.startswith("attnlab-") else ["python", sys.argv[0]]), *sys.argv[1:])


def origin(device: "torch.device") -> dict[str, Any]:
    """Versions, commit, hardware, command (quoted for a shell) and time of a result."""
    return {
        "versions": versions(),
        "git": git_state(),
        "hardware": hardware(device),
        "command": _command(),
        "written": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }
