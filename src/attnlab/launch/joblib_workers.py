"""Jobs in parallel processes (`hydra/launcher=joblib`): signals, GPUs and the number of processes.

The main process forwards signals that stop a run (`learn.stop_signals`) to its workers: every worker saves its run and
starts no other, and the main process waits for them. joblib itself would kill the workers.
"""

import contextlib
import importlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor
from types import FrameType
from typing import Any

from attnlab.config.command_frame import FAILED
from attnlab.learn.stop_signals import handled_by, heard, pass_on

_WATCH_SECONDS = 1.0


class Worker:
    """State of a worker process, kept from one job to the next.

    code: exit code of the signal that stopped it; 0 = no signal.
    """

    def __init__(self) -> None:
        self.code, self.ready = 0, False
        self.busy = threading.Lock()

    def run(self, job: Callable[[], int], parent: int, group: int) -> int:
        """Run a job and return its exit code; after a signal, return the exit code of the signal.

        Args:
            job: runs a job, and handles signals meanwhile.
            parent: id of the main process.
            group: id of the process group of the main process.
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
            # A terminal sends Ctrl-C to the whole group. The forwarded signal would be a second one, after which
            # nothing is saved.
            os.setpgrp()
        if os.getppid() == parent:
            threading.Thread(target=self._end_with, args=(parent,), daemon=True).start()
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        number = multiprocessing.current_process().name.rpartition("-")[2]
        if len(gpus) > 1 and number.isdigit():
            os.environ["CUDA_VISIBLE_DEVICES"] = gpus[int(number) % len(gpus)]
        # This takes seconds; a signal that arrives meanwhile is seen before the job starts.
        importlib.import_module("attnlab.run.train_run")

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        self.code = 128 + signum

    def _end_with(self, parent: int) -> None:
        """Wait for the end of the parent, then stop the job with SIGTERM and end this process."""
        while os.getppid() == parent:
            time.sleep(_WATCH_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)
        with self.busy:
            os._exit(128 + signal.SIGTERM)


def joblib_words(launcher: Mapping[str, Any], jobs: int) -> list[str]:
    """Overrides for Hydra that distribute jobs evenly.

    No more processes than jobs, since cores are divided among processes. Batches of one job: joblib makes batches
    larger after short jobs, and jobs that were finished before are short.
    """
    from joblib import effective_n_jobs

    words = [f"hydra.launcher.n_jobs={min(effective_n_jobs(launcher['n_jobs']), jobs)}"]
    return words if launcher["batch_size"] != "auto" else [*words, "hydra.launcher.batch_size=1"]


def run_with_workers(run: Callable[[], Any]) -> int:
    """Call a function that starts workers and waits for them; signals are forwarded to the workers.

    Returns:
        0; 1 if a worker was killed; 128 plus the number of the signal if one stopped them.
    """
    came: list[int] = []

    def forward(signum: int, frame: FrameType | None) -> None:
        came.append(signum)
        workers = multiprocessing.active_children()
        if not workers:
            raise SystemExit(128 + signum)
        # a started process has a number
        for pid in filter(None, (worker.pid for worker in workers)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signum)

    with handled_by(forward) as former:
        try:
            run()
        except BrokenExecutor:
            # Also raised if a signal ends a worker before it has installed its handlers.
            if not came:
                print(
                    "\nfailed: a process of this sweep was killed, and joblib ends the others with it (was there too "
                    "little memory? hydra.launcher.n_jobs=... sets their number); repeat the command to go on",
                    file=sys.stderr,
                )
                return FAILED
    pass_on(came, former)
    return 128 + came[0] if came else 0
