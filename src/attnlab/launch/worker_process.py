"""A process that runs jobs of a sweep for another process: signals, GPU, and the end of that other process."""

import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import FrameType

from attnlab.launch.visible_gpus import gpu_driver_here
from attnlab.learn.stop_signals import heard, unheard

TRAINING = "attnlab.run.train_run"
"""the module whose import takes seconds"""
_WATCH_SECONDS = 1.0


def start_method() -> str:
    """How this process starts worker processes: as forks, with what a run needs imported once, or anew with a GPU."""
    # A driver of GPUs does not survive a fork.
    if sys.platform != "linux" or gpu_driver_here():
        return "spawn"
    importlib.import_module(TRAINING)
    return "fork"


class Worker:
    """State of a worker process, kept from one job to the next.

    code: exit code of the signal that stopped it; 0 = no signal.
    """

    def __init__(self) -> None:
        self.code, self.ready = 0, False
        self.busy = threading.Lock()

    def run(self, job: Callable[[], int], parent: int = 0, group: int = 0) -> int:
        """Run a job and return its exit code; after a signal, return the exit code of the signal.

        Args:
            job: runs a job, and handles signals meanwhile.
            parent: id of the main process, with which this one ends; 0 = no process.
            group: id of the process group of the main process, which this one leaves; 0 = it stays.
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
        unheard.append(signum)

    def _end_with(self, parent: int) -> None:
        """Wait for the end of the parent, then stop the job with SIGTERM and end this process."""
        while os.getppid() == parent:
            time.sleep(_WATCH_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)
        with self.busy:
            os._exit(128 + signal.SIGTERM)


def serve(line: Connection, gpu: str | None, parent: int, group: int) -> None:
    """Main function of a worker process: run the tasks that come through a connection, and answer with exit codes.

    Args:
        line: brings tasks, and None at the end.
        gpu: the only one that this process sees, as CUDA_VISIBLE_DEVICES names it; None: no change.
        parent, group: as in `Worker.run`.
    """
    worker = Worker()
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    worker.prepare(parent, group)
    while (task := line.recv()) is not None:
        line.send(worker.run(task.run, parent, group))
