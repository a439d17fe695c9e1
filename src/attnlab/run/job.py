"""One job of the command line: a run, its errors as sentences, its exit code. torch is imported when a job begins."""

import sys
import traceback
from pathlib import Path
from typing import Any

FAILED = 1


def run_job(raw: dict[str, Any], quiet: bool, label: str = "") -> int:
    """Train, resume or show one run.

    Args:
        raw: the resolved configuration.
        quiet: print no table of the run (a sweep prints one of all).
        label: names the run in its lines, where other processes write to the same terminal.

    Returns:
        0, 1 (failed), or 128 and the number of the signal that stopped it, state saved: 130 for Ctrl-C.
    """
    from attnlab.config.naming import run_folder
    from attnlab.learn.stopping import Stopped
    from attnlab.run.signals import StopRequest
    from attnlab.run.summary import print_run
    from attnlab.run.train import train_run

    raw, stop = without_report(raw), StopRequest()
    try:
        with stop.listening():
            result, shown = train_run(raw, stop, label)
    except (Exception, Stopped) as error:
        code = exit_code(error, run_folder(raw))
        stop.pass_on()
        return code
    if not quiet:
        print_run(raw, result, shown)
    return 0


def without_report(raw: dict[str, Any]) -> dict[str, Any]:
    """The configuration without what is of the experiment and not of a run: another table makes no other runs."""
    return {key: value for key, value in raw.items() if key != "report"}


def exit_code(error: BaseException, folder: Path) -> int:
    """Say how a run ended that did not finish; its exit code."""
    from attnlab.attention.base import TooLong
    from attnlab.config.check import ConfigError
    from attnlab.data.fetch import DataError
    from attnlab.learn.module import NonFiniteLoss
    from attnlab.learn.saving import SaveError
    from attnlab.learn.stopping import Stopped
    from attnlab.run.record import RunError

    match error:
        case Stopped():
            print(f"\nstopped: {folder}; repeat the command to go on", file=sys.stderr)
            return 128 + error.signum
        case RunError() | DataError() | SaveError() | NonFiniteLoss() | TooLong() | ConfigError():
            print(f"\nfailed: {folder}\n  {error}", file=sys.stderr)
        case _:
            traceback.print_exception(error)
            print(f"\nfailed: {folder} (an unexpected error, above)", file=sys.stderr)
    return FAILED
