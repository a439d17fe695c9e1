"""The processes of a run on several devices of this machine, started and watched by torch's elastic agent.

The agent gives each process its rank in torchrun's variables, and ends all when one fails. Its handler of signals is
not used: it raises an exception wherever this process is, which may lose it, and kills processes that save for long.
"""

import ctypes
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

from attnlab.config.job_config import JobConfig
from attnlab.launch.worker_process import Worker, start_method
from attnlab.learn.devices.rank_layout import AGENT, EndedElsewhere, RankError
from attnlab.learn.stop_signals import Stopped, handled_by, pass_on, unheard
from attnlab.run.run_folder import RunFolder, is_finished

_START_SECONDS = 0.05
_GRACE_SECONDS = 2.0
_LOST = 76
"""exit code of a process that lost the connection to the others, of which none has ended (EX_PROTOCOL of sysexits.h)"""
_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG (man prctl)"""
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
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import elastic_launch

    for logger in _LOGGERS:
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    here, came = os.getpid(), list[int]()

    def forward(signum: int, frame: FrameType | None) -> None:
        if os.getpid() != here:
            # a new process, before it has handlers of its own
            unheard.append(signum)
        else:
            came.append(signum)
            threading.Thread(target=_send, args=(signum,), daemon=True).start()

    with TemporaryDirectory() as logs, handled_by(forward) as former:
        try:
            elastic_launch(_agent_config(ranks, logs), _train_as_rank)(train, job, label, name, here, os.getpgrp())
            return
        except ChildFailedError as failed:
            rank, failure = failed.get_first_failure()
            error = _rank_error(rank, failure.exitcode)
    if not isinstance(error, EndedElsewhere):
        RunFolder(job.folder).record_lost(error)
    pass_on(came, former)
    raise error


def _agent_config(ranks: int, logs: str) -> Any:
    """The LaunchConfig of the agent; `logs`: a folder for its files."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.launcher.api import LaunchConfig

    # Older torch has no such option: its agent handles signals itself, and kills what has not saved in 30 seconds.
    signals: dict[str, Any] = (
        {"signals_to_handle": ""} if "signals_to_handle" in LaunchConfig.__dataclass_fields__ else {}
    )
    return LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=ranks,
        run_id=AGENT,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        # the name of this machine may not resolve
        local_addr="127.0.0.1",
        logs_specs=DefaultLogsSpecs(log_dir=logs),
        max_restarts=0,
        start_method=start_method(),
        **signals,
    )


def _send(signum: int) -> None:
    """Send a signal to the processes, once one has begun; the agent ends the others with it."""
    while not (processes := multiprocessing.active_children()):
        time.sleep(_START_SECONDS)
    for process in processes:
        if process.pid:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signum)


def _train_as_rank(train: Callable[..., int], job: JobConfig, label: str, name: str, parent: int, group: int) -> None:
    """Main function of a process."""
    worker = Worker()
    worker.prepare(parent, group)
    if sys.platform == "linux":
        # Torch has asked for SIGINT when the parent dies, which may come twice and then ends a run without saving it.
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGTERM)
    if code := worker.run(partial(train, job, quiet=True, label=label, name=name)):
        sys.exit(code)
    if not is_finished(job):
        # Another process ends the run: the agent names that one, and then ends this one.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        time.sleep(_GRACE_SECONDS)
        sys.exit(_LOST)


def _rank_error(rank: int, code: int) -> Exception | Stopped:
    """The error of a run whose first process to end with an error had this rank and exit code."""
    if code > 128:
        return Stopped(code - 128)
    if code > 0 and code != _LOST and not rank:
        return EndedElsewhere(code)
    how = f"ended with exit code {code}; its message is above"
    if code == _LOST:
        how = "lost the connection to another one"
    elif code < 0:
        why = " (was there too little memory?)" if code == -signal.SIGKILL else ""
        how = f"was killed by {signal.Signals(-code).name}{why}"
    return RankError(f"the process of rank {rank} {how}; repeat the command to go on from the last checkpoint")
