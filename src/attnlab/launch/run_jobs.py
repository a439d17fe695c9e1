"""Runs the jobs of one `python train.py`: one after the other, packed, or in several processes."""

import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from omegaconf import DictConfig

from attnlab.config.command_frame import FAILED
from attnlab.config.compose import plain
from attnlab.config.job_config import JobConfig, job_config
from attnlab.config.pack_grouping import describe, packs, ranges
from attnlab.config.sweep import Command
from attnlab.launch.process_plan import ProcessPlan, process_plan
from attnlab.launch.run_job import note_former_name, run_job
from attnlab.launch.worker_process import Task, Worker, say
from attnlab.run.finished_run import is_finished

_WORKER = Worker()
"""state of this process if a launcher of Hydra has started it"""


class Jobs:
    """The jobs of a command line and their exit codes.

    Launchers that start processes use it as task function of Hydra: they call it with the configuration of one job.

    Args:
        command: the checked command line.
        argv: its arguments, which every result records.
    """

    def __init__(self, command: Command, argv: Sequence[str]) -> None:
        self.command, self.argv, self.total = command, list(argv), len(command.jobs)
        self.names = command.names
        self.process, self.group = os.getpid(), os.getpgrp()
        self.codes: list[int] = []
        self.noted = False

    def __getstate__(self) -> dict[str, Any]:
        """State without the jobs, for a worker: it gets its job from Hydra."""
        return self.__dict__ | {"command": replace(self.command, jobs=[])}

    def run(self) -> int:
        """Run the jobs: the only one, one after the other, packed, or in several processes; returns the exit code.

        Raises:
            SystemExit: a signal stopped a job; the rest of a sweep does not start.
        """
        command = self.command
        if not command.multirun:
            self._count([run_job(command.jobs[0], quiet=False)])
        elif command.launcher["name"] == "packed":
            self._run_packed(command.launcher["max_packed"])
        elif plan := process_plan(command.launcher, command.jobs):
            self._run_in_processes(plan)
        else:
            for number in range(self.total):
                self._run_here(number)
        return self.exit_code()

    def _run_in_processes(self, plan: ProcessPlan) -> None:
        """Run the jobs that are not finished in several processes."""
        tasks = []
        for number, job in enumerate(self.command.jobs):
            if is_finished(job):
                self._run_here(number)
            else:
                tasks.append(self._task(job, number, plan.threads))
        if not tasks:
            return
        from attnlab.launch.worker_pool import WorkerPool

        if line := plan.line(len(tasks)):
            print(line, file=sys.stderr, flush=True)
        pool = WorkerPool(tasks, plan.processes)
        if code := pool.run():
            raise SystemExit(code)
        self.codes += pool.codes

    def _task(self, job: JobConfig, number: int, threads: int | None = None) -> Task:
        return Task(job, self._label([number]), self.names[number], threads)

    def _run_packed(self, max_packed: int | None) -> None:
        """Train jobs together where that is possible (`config.pack_grouping`), and the others one after the other.

        Args:
            max_packed: maximal number of runs at once; None = as many as fit into memory.
        """
        for pack in packs(self.command.jobs):
            if pack.reason:
                self._run_here(pack.members[0], f"alone: {pack.reason}")
            else:
                self._pack(pack.members, max_packed)

    def __call__(self, config: DictConfig) -> int:
        """Run a job that Hydra has composed in a process of a launcher; returns its exit code.

        Raises:
            ConfigError: it cannot run here.
        """
        from hydra.core.hydra_config import HydraConfig

        # In that process, sys.argv holds other arguments than the ones of the user.
        sys.argv[1:] = self.argv
        number = HydraConfig.get().job.num
        job = job_config(plain(config))
        if is_finished(job):
            # A worker imports torch before its first job, which takes seconds.
            self.say([number], f"{self.names[number]}, finished before")
            return 0
        return _WORKER.run(self._task(job, number).run, self.process, self.group)

    def say(self, numbers: Sequence[int], text: str) -> None:
        """Print a line about jobs, with their numbers from 1."""
        say(self._label(numbers), text)

    def exit_code(self) -> int:
        """Returns 0 if all jobs are finished; after a sweep, prints a table of its jobs."""
        if not self.command.multirun:
            return self.codes[-1] if self.codes else 0
        from attnlab.launch.console_summary import print_sweep

        return print_sweep(self.command.jobs, self.names) or max(self.codes, default=0)

    def _label(self, numbers: Sequence[int]) -> str:
        return f"[{ranges(number + 1 for number in numbers)}/{self.total}]"

    def _count(self, codes: list[int]) -> None:
        self.codes += codes
        if max(codes) > 128:
            raise SystemExit(max(codes))

    def _run_here(self, number: int, more: str = "") -> int:
        """Run a job in this process.

        Args:
            more: printed after its name.
        """
        job, name = self.command.jobs[number], self.names[number]
        finished = is_finished(job)
        if finished:
            more = "finished before" + (", under a former name" if job.has_former_name else "")
        self.say([number], f"{name}, {more}" if more else name)
        self._count([0 if finished else run_job(job, quiet=True, name=f"{self._label([number])} {name}")])
        return self.codes[-1]

    def _pack(self, numbers: Sequence[int], max_packed: int | None) -> None:
        jobs = [self.command.jobs[number] for number in numbers]
        device, finished = jobs[0].typed.trainer.device, sum(map(is_finished, jobs))
        left = f"; {finished} finished before, {len(jobs) - finished} to train" if finished else ""
        self.say(numbers, f"packed: {describe(jobs)}, device {device}{left}")
        if finished == len(jobs):
            self._count([0] * len(jobs))
            return
        self._note_device(device)
        from attnlab.launch.pack.run_pack import run_pack

        for job in jobs:
            note_former_name(job)
        try:
            codes = run_pack(jobs, max_packed)
        except Exception:
            traceback.print_exc()
            self.say(numbers, "failed: an unexpected error, above; repeat the command to go on")
            codes = [FAILED] * len(jobs)
        self._count(codes)

    def _note_device(self, device: str) -> None:
        """Print once that packing is meant for GPUs."""
        import torch

        if not self.noted and (device == "cpu" or not torch.cuda.is_available()):
            print(
                "note: packing is for GPUs; on a CPU runs of published size are faster one after the other",
                file=sys.stderr,
            )
        self.noted = True
