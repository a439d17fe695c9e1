"""Provenance of a result: versions, commit, hardware, command and time. Only `hardware` imports torch."""

import contextlib
import os
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
from attnlab.config.message_text import command_line, first_line

if TYPE_CHECKING:
    import torch

COMPARABLE_VERSIONS = (attnlab.__version__, "0.3.0", "0.2.0")
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
    """Commit, and whether code or configuration has uncommitted changes; nulls outside a checkout of attnlab, and with
    the reason (`problem`) where git refuses the checkout or is missing.
    """
    root = Path(attnlab.__file__).parent
    try:
        if _git(root, "ls-files", "__init__.py"):
            changes = _git(root, "status", "--porcelain", "--", ":/src", ":/conf")
            return {"commit": _git(root, "rev-parse", "HEAD"), "dirty": bool(changes)}
        problem = ""
    except (OSError, subprocess.SubprocessError) as error:
        # an installed package may lie below a checkout of something else
        in_checkout = root.parent.name == "src" and (root.parents[1] / ".git").exists()
        problem = _reason(error) if in_checkout else ""
    return {"commit": None, "dirty": None} | ({"problem": problem} if problem else {})


def _git(folder: Path, *arguments: str) -> str:
    line, english = ["git", "-C", str(folder), *arguments], os.environ | {"LC_ALL": "C"}
    done = subprocess.run(line, capture_output=True, text=True, errors="replace", timeout=20, check=True, env=english)
    return done.stdout.strip()


def _reason(error: Exception) -> str:
    """Why git gave no answer: the first line that it wrote, or the error of its start."""
    said = (getattr(error, "stderr", None) or "").strip().partition("\n")[0].removeprefix("fatal: ")
    return said[:200] or f"{type(error).__name__}: {first_line(error)}"


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
