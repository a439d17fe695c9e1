"""One job of the command line: a run, its errors as sentences, its exit code. torch is imported when a job begins."""

import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnlab.config.check import ConfigError
from attnlab.config.naming import run_folder, run_label
from attnlab.config.plugins import TargetError
from attnlab.run.finished import of_run, recorded_result
from attnlab.run.record import RunError

FAILED, INTERRUPTED = 1, 130


def run_job(raw: dict[str, Any], quiet: bool, label: str = "") -> int:
    """Train, resume or show one run.

    Args:
        raw: the resolved configuration; its defaults are filled in.
        quiet: print no table of the run (a sweep prints one of all).
        label: names the run in its lines, where other processes write to the same terminal.

    Returns:
        0, 1 (failed), 130 or 143 (stopped by Ctrl-C or SIGTERM, state saved).
    """
    raw = of_run(raw)
    try:
        result = recorded_result(raw)
        shown = result is not None
        if not shown:
            if not quiet and raw["trainer"]["progress"] != "none":
                print(start_line(raw), file=sys.stderr, flush=True)
            result, shown = _trained(raw, label)
    except Exception as error:
        return exit_code(error, run_folder(raw))
    if not quiet:
        from attnlab.run.summary import print_run

        print_run(raw, result, shown)
    return 0


def start_line(raw: Mapping[str, Any]) -> str:
    """What is known of a run before torch is loaded and any data is read; its size follows when it has a network."""
    what = f"task {run_label(raw)}, model {raw['model']['name']}, seed {raw['seed']}"
    return f"{what}, device {raw['trainer']['device']}; run folder: {run_folder(raw)}"


def _trained(raw: dict[str, Any], label: str) -> tuple[dict[str, Any], bool]:
    from attnlab.run.signals import StopRequest
    from attnlab.run.train import train_run

    with StopRequest().listening() as stop:
        return train_run(raw, stop, label)


def exit_code(error: Exception, folder: Path) -> int:
    """Say how a run ended that did not finish; its exit code."""
    if isinstance(error, RunError | ConfigError | TargetError):
        return _failed(folder, str(error))
    from attnlab.attention.base import TooLong
    from attnlab.data.fetch import DataError
    from attnlab.learn.callbacks import Stopped
    from attnlab.learn.module import NonFiniteLoss
    from attnlab.learn.saving import SaveError

    match error:
        case Stopped():
            print(f"\nstopped: {folder}; repeat the command to go on", file=sys.stderr)
            return 128 + error.signum
        case DataError() | SaveError() | NonFiniteLoss() | TooLong():
            return _failed(folder, str(error))
    if lacks_memory(error):
        smaller = "make it smaller: train.batch_size, train.max_tokens, backbone.*, or the lengths and sizes of task.*"
        said = next(iter(str(error).splitlines()), type(error).__name__)
        return _failed(folder, f"it does not fit into memory ({said}); {smaller}")
    traceback.print_exception(error)
    print(f"\nfailed: {folder} (an unexpected error, above)", file=sys.stderr)
    return FAILED


def _failed(folder: Path, reason: str) -> int:
    print(f"\nfailed: {folder}\n  {reason}", file=sys.stderr)
    return FAILED


def lacks_memory(error: Exception) -> bool:
    """Whether an allocation failed: of numpy and Python, of a GPU, or of torch on the CPU, which names it in words."""
    import torch

    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)
