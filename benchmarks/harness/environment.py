"""Environment of a measurement, and the command-line options that all benchmarks share."""

import argparse
import os
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from attnlab.learn.devices.memory_use import keep_freed_memory
from attnlab.run import provenance

CPU = torch.device("cpu")


def parser(description: str | None, seconds: float | None, devices: bool = False) -> argparse.ArgumentParser:
    """Returns an argument parser with the options that all benchmarks share.

    Args:
        description: the module's docstring.
        seconds: default time of a comparison; None = the benchmark measures a number of calls.
        devices: whether the benchmark can run on a GPU.
    """
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--threads", type=int, default=torch.get_num_threads(), help="CPU threads (default: torch's own)"
    )
    if seconds is not None:
        help_text = (
            "for each comparison, of which there may be many; one that needs longer says so (default: %(default)s)"
        )
        options.add_argument("--seconds", type=float, default=seconds, help=help_text)
    if devices:
        result = "cuda" if torch.cuda.is_available() else "cpu"
        options.add_argument("--device", type=device_of, default=result, help="cpu or cuda (default here: %(default)s)")
    return options


def device_of(name: str) -> torch.device:
    """Returns the device of `--device`; raises the error that argparse shows if there is no such device."""
    if name not in ("cpu", "cuda"):
        raise argparse.ArgumentTypeError(f"{name!r} is no device: cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise argparse.ArgumentTypeError("torch sees no usable GPU here: use cpu")
    return torch.device(name)


def begin(threads: int, device: torch.device = CPU) -> dict[str, object]:
    """Sets the number of threads and, as runs do, keeps freed memory on a CPU.

    Returns:
        the environment, which every row of results carries.
    """
    torch.set_num_threads(threads)
    if device.type == "cpu":
        keep_freed_memory()
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"note: this machine is busy (load {load:.1f}); take the figures as rough", file=sys.stderr)
    git, hardware = provenance.git_state(), provenance.hardware(device)
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "device": hardware["gpu"] or "cpu",
        "cpu": hardware["cpu"],
        "threads": threads,
        "load_before": round(load, 1),
        "torch": torch.__version__,
        "cuda": torch.version.cuda or "",
        "fla": installed("fla-core"),
        "commit": f"{(git['commit'] or 'none')[:10]}{' + changes' if git['dirty'] else ''}",
        "command": _command(),
    }


def installed(package: str) -> str:
    """Returns the version of a package; an empty text if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _command() -> str:
    module = Path(sys.argv[0]).stem
    return " ".join([f"python -m benchmarks.{module}", *sys.argv[1:]])
