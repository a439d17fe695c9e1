"""The processes of a run on several devices of this machine, started and watched by torch's elastic agent.

The agent gives each process its rank in torchrun's variables, forwards stop signals, and ends all when one fails.
"""

import logging
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from tempfile import TemporaryDirectory

from attnlab.config.job_config import JobConfig
from attnlab.launch.worker_process import Worker
from attnlab.learn.devices.rank_layout import AGENT, EndedElsewhere, RankError
from attnlab.learn.stop_signals import Stopped, heard
from attnlab.run.run_folder import RunFolder
from attnlab.run.run_lock import is_locked

SAVE_SECONDS = 600
"""after a stop signal, until processes that have not saved the run are killed"""

_LOGGERS = (
    "torch.distributed.elastic.agent.server.api",
    "torch.distributed.elastic.multiprocessing.api",
    "torch.multiprocessing.spawn",
)
"""they report every end of a process; the errors of `run_ranks` say what matters"""


def run_ranks(train: Callable[..., int], job: JobConfig, ranks: int, label: str, name: str) -> None:
    """Train a run in so many processes; rank 0 prints and records the run.

    Args:
        train: `run_job`, called in each process.
        label, name: as in `run_job`.

    Raises:
        RankError: a process was killed, or ended alone. Stopped: a signal ended the run. Both are recorded.
        EndedElsewhere: rank 0 has printed another error.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    for logger in _LOGGERS:
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    logs = TemporaryDirectory()
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=ranks,
        run_id=AGENT,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        # the name of this machine may not resolve
        local_addr="127.0.0.1",
        logs_specs=DefaultLogsSpecs(log_dir=logs.name),
        max_restarts=0,
        signals_to_handle=",".join(signum.name for signum in heard()),
        shutdown_timeout=SAVE_SECONDS,
    )
    try:
        elastic_launch(config, _train_as_rank)(train, job, label, name, os.getpid(), os.getpgrp())
        return
    except SignalException as signalled:
        error: Exception | Stopped = Stopped(signalled.sigval)
    except ChildFailedError as failed:
        rank, failure = failed.get_first_failure()
        error = _rank_error(rank, failure.exitcode)
    finally:
        logs.cleanup()
    folder = RunFolder(job.folder)
    unsaved = isinstance(error, Stopped) and folder.status().get("state") == "running"
    if (unsaved or isinstance(error, RankError)) and folder.status_file.exists() and not is_locked(folder.path):
        folder.record_end(error)
    raise error


def _train_as_rank(train: Callable[..., int], job: JobConfig, label: str, name: str, parent: int, group: int) -> None:
    """Main function of a process."""
    if code := Worker().run(partial(train, job, quiet=True, label=label, name=name), parent, group):
        sys.exit(code)
    # The agent ends this process when another one fails.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _rank_error(rank: int, code: int) -> Exception | Stopped:
    """The error of a run whose first process to end with an error had this rank and exit code."""
    if code > 128:
        return Stopped(code - 128)
    if code > 0 and not rank:
        return EndedElsewhere(code)
    how = f"ended with exit code {code}; its message is above"
    if code < 0:
        why = " (was there too little memory?)" if code == -signal.SIGKILL else ""
        how = f"was killed by {signal.Signals(-code).name}{why}"
    return RankError(f"the process of rank {rank} {how}; repeat the command to go on from the last checkpoint")
