"""Jobs of a sweep in several processes of a machine (`hydra/launcher=joblib`, and tasks of several runs on Slurm).

Without a GPU, torch and attnlab are imported once, and the processes are forks of this one. A process runs one job
after another, and reads data that they have in common once. If it is killed, its job has failed, and the others go on.
Signals that stop a run (`learn.stop_signals`) are forwarded: every process saves its run, and no other begins.
"""

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from types import FrameType
from typing import Any, cast

from attnlab.config.command_line.command_frame import FAILED
from attnlab.config.problem import UserError
from attnlab.launch.run_job import JobTask, exit_code
from attnlab.launch.worker_process import serve, start_method
from attnlab.learn.stop_signals import handled_by, pass_on
from attnlab.run.run_folder import RunFolder


class WorkerPool:
    """Processes that share the tasks of a sweep.

    Args:
        tasks: in the order in which they begin.
        size: number of processes; one fewer after each that SIGKILL ended, since memory may be short.
        gpus: GPUs over which the processes are spread, one each, as CUDA_VISIBLE_DEVICES names them; none: every
            process sees all of them.
        advice: what helps where a process was killed because memory was short.

    Attributes:
        codes: exit codes of the tasks that have ended, by their labels.
    """

    def __init__(
        self,
        tasks: Sequence[JobTask],
        size: int,
        gpus: Sequence[str] = (),
        advice: str = "hydra.launcher.n_jobs=... sets the number of processes",
    ) -> None:
        self.waiting, self.size, self.advice = list(tasks), min(size, len(tasks)), advice
        self.codes: dict[str, int] = {}
        self.idle: list[Connection] = []
        self.busy: dict[Connection, JobTask] = {}
        self.workers: dict[Connection, Any] = {}
        self.gpus, self.gpu_of = list(gpus), dict[Connection, str]()
        self.came: list[int] = []
        self.process, self.group = os.getpid(), os.getpgrp()
        self.context: Any = multiprocessing.get_context(start_method())

    def run(self) -> int:
        """Run all tasks; returns 0, or 128 plus the number of the signal that stopped them."""
        with handled_by(self._forward) as former:
            try:
                while self.busy or (self.waiting and not self.came):
                    self._begin()
                    for line in wait(list(self.busy)):
                        self._end_task(cast("Connection", line))
            finally:
                self._close()
        pass_on(self.came, former)
        return 128 + self.came[0] if self.came else 0

    def _begin(self) -> None:
        """Give tasks to idle processes; two tasks of one run folder are not run at once."""
        while self.waiting and not self.came and (self.idle or len(self.workers) < self.size):
            folders = {task.folder for task in self.busy.values()}
            task = next((task for task in self.waiting if task.folder not in folders), None)
            if task is None:
                return
            line = self.idle.pop() if self.idle else self._start()
            if self.came:
                # before this process was among the workers, which the signal is forwarded to
                self.idle.append(line)
                return
            self.waiting.remove(task)
            self.busy[line] = task
            # A process that a signal reached meanwhile answers without beginning; one that is gone is noticed later.
            with contextlib.suppress(BrokenPipeError):
                line.send(task)

    def _start(self) -> Connection:
        ours, theirs = self.context.Pipe()
        used = [self.gpu_of[line] for line in self.workers if line in self.gpu_of]
        gpu = min(self.gpus, key=used.count) if self.gpus else None
        worker = self.context.Process(target=serve, args=(theirs, gpu, self.process, self.group))
        worker.start()
        # The end of the connection is noticed when no other process holds it.
        theirs.close()
        self.workers[ours] = worker
        if gpu is not None:
            self.gpu_of[ours] = gpu
        return ours

    def _end_task(self, line: Connection) -> None:
        """Take the exit code of a task, or notice that its process was killed."""
        task = self.busy.pop(line)
        try:
            code = line.recv()
        except (EOFError, OSError):
            worker = self.workers.pop(line)
            worker.join()
            code = FAILED
            if not self.came:
                self.size = max(1, self.size - (worker.exitcode == -signal.SIGKILL))
                self._report_lost(task, worker.exitcode)
        else:
            if code > 128:
                # A signal reached this process, which begins nothing any more.
                self._end(line)
            else:
                self.idle.append(line)
        self.codes[task.label] = code

    def _report_lost(self, task: JobTask, code: int) -> None:
        """Print, and record in the run folder, that the process of a task has ended."""
        how, advice = f"gone, with exit code {code}", "repeat the command to go on"
        if code < 0:
            how = f"killed by {signal.Signals(-code).name}"
        if code == -signal.SIGKILL:
            how += " (was there too little memory?)"
            advice += f"; {self.advice}"
        RunFolder(task.folder).record_lost(UserError(f"its process was {how}"))
        others = f"the other jobs go on, {self.size} at once; " if self.waiting or self.busy else ""
        exit_code(UserError(f"its process was {how}; {others}{advice}"), f"{task.label} {task.name}")

    def _forward(self, signum: int, frame: FrameType | None) -> None:
        if os.getpid() != self.process:
            # a new process, before it has handlers of its own
            raise SystemExit(128 + signum)
        self.came.append(signum)
        for worker in self.workers.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker.pid, signum)

    def _close(self) -> None:
        """End the processes; those with a task, after an error here, save their run first."""
        for line in self.busy:
            self.workers[line].terminate()
        for line in list(self.workers):
            self._end(line)

    def _end(self, line: Connection) -> None:
        with contextlib.suppress(OSError):
            line.send(None)
        self.workers.pop(line).join()
