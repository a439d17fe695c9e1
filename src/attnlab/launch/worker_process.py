"""A process that runs jobs of a sweep for another process: signals, GPU, and the end of that other process."""

import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from types import FrameType

from attnlab.config.job_config import JobConfig
from attnlab.launch.run_job import run_job
from attnlab.learn.rank_layout import started_layout
from attnlab.learn.stop_signals import heard

TRAINING = "attnlab.run.train_run"
"""the module whose import takes seconds"""
_WATCH_SECONDS = 1.0


@dataclass(frozen=True)
class Task:
    """A job for a worker.

    label:   its number, printed before its lines, since several jobs write to the terminal: `[3/12]`.
    name:    what varies in the sweep: `model=linear seed=0`.
    threads: of the run if `trainer.threads` is null; None = as OMP_NUM_THREADS says.
    """

    job: JobConfig
    label: str
    name: str
    threads: int | None = None

    def run(self) -> int:
        """Run the job in this process; returns its exit code."""
        say(self.label, self.name)
        typed = self.job.typed
        if typed.trainer.threads is None:
            typed = replace(typed, trainer=replace(typed.trainer, threads=self.threads))
        code = run_job(replace(self.job, typed=typed), quiet=True, label=self.label, name=self.name)
        if not code:
            say(self.label, "finished")
        return code


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
        self.prepare(parent, group)
        if self.code:
            return self.code
        with self.busy:
            code = job()
        self.code = self.code or (code if code > 128 else 0)
        return code

    def prepare(self, parent: int, group: int) -> None:
        """Handle signals, watch the main process, and import what a run needs; does nothing the second time."""
        if self.ready:
            return
        self.ready = True
        for signum in heard():
            signal.signal(signum, self._handle)
        if os.getpgrp() == group:
            # A terminal sends Ctrl-C to the whole group. The forwarded signal would be a second one, after which
            # nothing is saved.
            os.setpgrp()
        if os.getppid() == parent:
            threading.Thread(target=self._end_with, args=(parent,), daemon=True).start()
        # This takes seconds; a signal that arrives meanwhile is seen before the job starts.
        importlib.import_module(TRAINING)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        self.code = 128 + signum

    def _end_with(self, parent: int) -> None:
        """Wait for the end of the parent, then stop the job with SIGTERM and end this process."""
        while os.getppid() == parent:
            time.sleep(_WATCH_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)
        with self.busy:
            os._exit(128 + signal.SIGTERM)


def serve(line: Connection, number: int, parent: int, group: int) -> None:
    """Main function of a worker process: run the tasks that come through a connection, and answer with exit codes.

    Args:
        line: brings tasks, and None at the end.
        number: of this worker, from 0; of several GPUs in CUDA_VISIBLE_DEVICES it takes one.
        parent, group: as in `Worker.run`.
    """
    worker = Worker()
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    if len(gpus) > 1:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[number % len(gpus)]
    worker.prepare(parent, group)
    while (task := line.recv()) is not None:
        line.send(worker.run(task.run, parent, group))


def say(label: str, text: str) -> None:
    """Print a line about a job; of several processes of torchrun or srun, rank 0 does."""
    place = started_layout(os.environ)
    if place is None or not place.rank:
        print(f"{label} {text}", file=sys.stderr, flush=True)
