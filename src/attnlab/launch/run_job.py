"""One job of the command line: a run, its errors as sentences, its exit code. torch is imported when a job begins."""

import sys
import traceback
from pathlib import Path
from typing import Any

from attnlab.config.check import ConfigError
from attnlab.config.job_config import JobConfig
from attnlab.config.plugins import TargetError
from attnlab.run.finished_run import recorded_result
from attnlab.run.run_folder import RunError

FAILED = 1


def run_job(job: JobConfig, quiet: bool, label: str = "") -> int:
    """Train, resume or show one run.

    Args:
        quiet: print no table of the run (a sweep prints one of all).
        label: names the run in its lines, where other processes write to the same terminal.

    Returns:
        0, 1 (failed), or 128 and the number of the signal that stopped it, state saved: 130 for Ctrl-C.
    """
    try:
        result = recorded_result(job)
    except Exception as error:
        return exit_code(error, job.folder)
    if result is not None:
        return _ended(job, result, True, quiet)
    if not quiet and job.typed.trainer.progress != "none":
        print(start_line(job), file=sys.stderr, flush=True)
    return _trained(job, quiet, label)


def _ended(job: JobConfig, result: dict[str, Any], shown: bool, quiet: bool) -> int:
    if not quiet:
        from attnlab.launch.console_summary import print_run

        print_run(job, result, shown)
    return 0


def start_line(job: JobConfig) -> str:
    """What is known of a run before torch is loaded and any data is read; its size follows when it has a network."""
    config = job.typed
    what = f"task {job.label}, model {config.model.name}, seed {config.seed}"
    return f"{what}, device {config.trainer.device}; run folder: {job.folder}"


def _trained(job: JobConfig, quiet: bool, label: str) -> int:
    from attnlab.learn.stop_signals import Stopped, StopRequest
    from attnlab.run.run_lifecycle import train_run

    stop = StopRequest()
    try:
        with stop.listening():
            result, shown = train_run(job, stop, label)
    except (Exception, Stopped) as error:
        code = exit_code(error, job.folder)
        stop.pass_on()
        return code
    return _ended(job, result, shown, quiet)


def exit_code(error: BaseException, folder: Path) -> int:
    """Say how a run ended that did not finish; its exit code."""
    if isinstance(error, RunError | ConfigError | TargetError):
        return _failed(folder, str(error))
    from attnlab.attention.base import TooLong
    from attnlab.data.files.fetch import DataError
    from attnlab.learn.atomic_write import SaveError
    from attnlab.learn.stop_signals import Stopped
    from attnlab.learn.training_module import NonFiniteLoss

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
