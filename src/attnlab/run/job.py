"""One job of the command line: a run, its errors as sentences, its exit code. torch is imported when a job begins."""

import sys
import traceback
from typing import Any

FAILED, TERMINATED, INTERRUPTED = 1, 143, 130


def run_job(raw: dict[str, Any], quiet: bool) -> int:
    """Train, resume or show one run.

    Args:
        raw: the resolved configuration.
        quiet: print no table of the run (a sweep prints one of all).

    Returns:
        0, 1 (failed), 130 or 143 (stopped by Ctrl-C or SIGTERM, state saved).
    """
    from attnlab.attention.base import TooLong
    from attnlab.config.check import ConfigError
    from attnlab.config.naming import run_folder
    from attnlab.data.fetch import DataError
    from attnlab.learn.callbacks import SaveError, Stopped
    from attnlab.learn.module import NonFiniteLoss
    from attnlab.run.record import RunError
    from attnlab.run.signals import StopRequest
    from attnlab.run.summary import print_run
    from attnlab.run.train import train_run

    # Of the experiment, not of this run: another table of the same runs must not make other ones.
    raw = {key: value for key, value in raw.items() if key != "report"}
    folder = run_folder(raw)
    try:
        with StopRequest().listening() as stop:
            result, shown = train_run(raw, stop)
    except Stopped as stopped:
        print(f"\nstopped: {folder}; repeat the command to go on", file=sys.stderr)
        return 128 + stopped.signum
    except (RunError, DataError, SaveError, NonFiniteLoss, TooLong, ConfigError) as error:
        print(f"\nfailed: {folder}\n  {error}", file=sys.stderr)
        return FAILED
    except Exception:
        traceback.print_exc()
        print(f"\nfailed: {folder} (an unexpected error, above)", file=sys.stderr)
        return FAILED
    if not quiet:
        print_run(raw, result, shown)
    return 0
