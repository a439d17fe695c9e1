"""One job of the command line: a run, its errors as sentences, its exit code. torch is imported when a job begins."""

import sys
import traceback
from pathlib import Path
from typing import Any

from attnlab.config.defaults import completed

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
    from attnlab.config.naming import run_folder
    from attnlab.run.signals import StopRequest
    from attnlab.run.summary import print_run
    from attnlab.run.train import train_run

    raw = of_run(raw)
    try:
        with StopRequest().listening() as stop:
            result, shown = train_run(raw, stop, label)
    except Exception as error:
        return exit_code(error, run_folder(raw))
    if not quiet:
        print_run(raw, result, shown)
    return 0


def of_run(raw: dict[str, Any]) -> dict[str, Any]:
    """A run's own configuration: complete, and without the experiment's table, as another table makes no other runs."""
    return {key: value for key, value in completed(raw).items() if key != "report"}


def exit_code(error: Exception, folder: Path) -> int:
    """Say how a run ended that did not finish; its exit code."""
    from attnlab.attention.base import TooLong
    from attnlab.config.check import ConfigError
    from attnlab.config.plugins import TargetError
    from attnlab.data.fetch import DataError
    from attnlab.learn.callbacks import Stopped
    from attnlab.learn.module import NonFiniteLoss
    from attnlab.learn.saving import SaveError
    from attnlab.run.record import RunError

    match error:
        case Stopped():
            print(f"\nstopped: {folder}; repeat the command to go on", file=sys.stderr)
            return 128 + error.signum
        case RunError() | DataError() | SaveError() | NonFiniteLoss() | TooLong() | ConfigError() | TargetError():
            print(f"\nfailed: {folder}\n  {error}", file=sys.stderr)
        case _:
            traceback.print_exception(error)
            print(f"\nfailed: {folder} (an unexpected error, above)", file=sys.stderr)
    return FAILED
