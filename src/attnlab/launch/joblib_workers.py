"""Jobs in processes of their own (`hydra/launcher=joblib`): signals, GPUs and the number of processes.

The signals that stop a run (`learn.stop_signals`) go to the main process, which passes them on: every worker saves its
run, starts no other, and the main process waits for them. joblib itself would kill them all.
"""

import contextlib
import importlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from types import FrameType
from typing import Any

from attnlab.launch.run_job import FAILED
from attnlab.learn.stop_signals import handled_by, heard, pass_on

_WATCH_SECONDS = 1.0


class Worker:
    """What a process that runs jobs for another one keeps from one job to the next.

    code: exit code of the signal that stopped it; 0 = none did.
    """

    def __init__(self) -> None:
        self.code, self.ready = 0, False
        self.busy = threading.Lock()

    def run(self, job: Callable[[], int], parent: int, group: int) -> int:
        """The job's exit code; that of the signal, at once, where one has stopped this process.

        Args:
            job: runs a job, and listens for signals while it does.
            parent: id of the main process.
            group: id of the main process's group.
        """
        if not self.ready:
            self.ready = True
            self._prepare(parent, group)
        if self.code:
            return self.code
        with self.busy:
            code = job()
        self.code = self.code or (code if code > 128 else 0)
        return code

    def _prepare(self, parent: int, group: int) -> None:
        for signum in heard():
            signal.signal(signum, self._handle)
        if os.getpgrp() == group:
            # A terminal sends Ctrl-C to all of a group. Passed on as well, it would be the second one, which saves
            # nothing.
            os.setpgrp()
        if os.getppid() == parent:
            threading.Thread(target=self._end_with, args=(parent,), daemon=True).start()
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        number = multiprocessing.current_process().name.rpartition("-")[2]
        if len(gpus) > 1 and number.isdigit():
            os.environ["CUDA_VISIBLE_DEVICES"] = gpus[int(number) % len(gpus)]
        # The seconds this takes: a signal in them is found before the job begins.
        importlib.import_module("attnlab.run.run_lifecycle")

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        self.code = 128 + signum

    def _end_with(self, parent: int) -> None:
        """Once the parent is gone, stop the job, as SIGTERM does, and end: nobody else would tell this process to."""
        while os.getppid() == parent:
            time.sleep(_WATCH_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)
        with self.busy:
            os._exit(128 + signal.SIGTERM)


def joblib_words(launcher: Mapping[str, Any], jobs: int) -> list[str]:
    """Words of Hydra's that spread jobs evenly.

    No more processes than jobs, since cores are divided by processes. Jobs one by one: joblib hands out many at once
    when the first ones were quick, as those are that were finished before.
    """
    from joblib import effective_n_jobs

    words = [f"hydra.launcher.n_jobs={min(effective_n_jobs(launcher['n_jobs']), jobs)}"]
    return words if launcher["batch_size"] != "auto" else [*words, "hydra.launcher.batch_size=1"]


def run_with_workers(run: Callable[[], Any]) -> int:
    """Call what starts workers and waits for them.

    Returns:
        0; 1 when a worker was killed; 128 and its number when a signal stopped them all.
    """
    with _passing_on() as stopped:
        try:
            run()
        except BrokenExecutor:
            # Also what a worker leaves that had no time yet to listen for signals.
            if not stopped:
                print(
                    "\nfailed: a process of this sweep was killed, and joblib ends the others with it (was there too "
                    "little memory? hydra.launcher.n_jobs=... sets their number); repeat the command to go on",
                    file=sys.stderr,
                )
                return FAILED
    return 128 + stopped[0] if stopped else 0


@contextmanager
def _passing_on() -> Iterator[list[int]]:
    """In this block signals go to the workers; yields those that came."""
    came: list[int] = []

    def handle(signum: int, frame: FrameType | None) -> None:
        came.append(signum)
        workers = multiprocessing.active_children()
        if not workers:
            raise SystemExit(128 + signum)
        for worker in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker.pid, signum)

    with handled_by(handle) as former:
        yield came
    pass_on(came, former)
