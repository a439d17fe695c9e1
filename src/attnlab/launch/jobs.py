"""The jobs of one `python train.py`: run one after the other, packed, or handed out by Hydra; and the exit code."""

import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from omegaconf import DictConfig, OmegaConf

from attnlab.config.job_config import JobConfig, job_config
from attnlab.config.pack_grouping import describe, packs, ranges
from attnlab.config.sweep import Command
from attnlab.launch.joblib_workers import Worker
from attnlab.launch.run_job import FAILED, run_job, start_line
from attnlab.run.finished_run import is_finished

_WORKER = Worker()
"""of this process, where it runs jobs for another one"""


class Jobs:
    """The jobs of a command line and their exit codes so far.

    Launchers that start processes have it as Hydra's task function: it is called there with one job's configuration.

    Args:
        command: the checked command line.
        argv: its words, as every result records them.
    """

    def __init__(self, command: Command, argv: Sequence[str]) -> None:
        self.command, self.argv, self.total = command, list(argv), len(command.jobs)
        self.process, self.group = os.getpid(), os.getpgrp()
        self.codes: list[int] = []
        self.noted = False

    def __getstate__(self) -> dict[str, Any]:
        """Without the other jobs: a worker needs its own only, which Hydra hands over."""
        return self.__dict__ | {"command": replace(self.command, jobs=[])}

    def run_only(self) -> None:
        """Run the job of a command line that is no sweep.

        Raises:
            SystemExit: a signal stopped it.
        """
        self._count([run_job(self.command.jobs[0], quiet=False)])

    def run_each(self) -> None:
        """Run the jobs of a sweep one after the other in this process.

        Raises:
            SystemExit: a signal stopped one; the rest of the sweep does not start.
        """
        for number in range(self.total):
            self._run_here(number)

    def run_packed(self, max_packed: int | None) -> None:
        """Train what fits together in one go (`config.pack_grouping`), and the rest one after the other.

        Args:
            max_packed: runs trained at once at most; None = as many as fit into memory.

        Raises:
            SystemExit: as for `run_each`.
        """
        for pack in packs(self.command.jobs):
            if pack.reason:
                self.say(pack.members, f"alone: {pack.reason}")
                self._run_here(pack.members[0])
            else:
                self._pack(pack.members, max_packed)

    def __call__(self, config: DictConfig) -> int:
        """Run the job that Hydra composed in a process of a launcher; returns its exit code.

        Raises:
            SystemExit: a signal stopped it.
            ConfigError: it cannot run here.
        """
        from hydra.core.hydra_config import HydraConfig

        # As Hydra is called in a worker, are other words than the user's.
        sys.argv[1:] = self.argv
        number = HydraConfig.get().job.num
        if os.getpid() == self.process:
            return self._run_here(number)
        job = job_config(OmegaConf.to_container(config, resolve=True))
        if is_finished(job):
            # A worker loads torch before its first job, which takes seconds.
            self.say([number], f"finished before: {job.folder}")
            return 0
        return _WORKER.run(lambda: self._beside_others(job, number), self.process, self.group)

    def say(self, numbers: Sequence[int], text: str) -> None:
        """One line about jobs, which people count from 1."""
        print(f"{self._label(numbers)} {text}", file=sys.stderr, flush=True)

    def exit_code(self) -> int:
        """0 when everything is finished; a sweep shows a table of its jobs, whichever process ran them."""
        if not self.command.multirun:
            return self.codes[-1] if self.codes else 0
        from attnlab.launch.console_summary import print_sweep

        return print_sweep(self.command.jobs) or max(self.codes, default=0)

    def _label(self, numbers: Sequence[int]) -> str:
        return f"[{ranges(number + 1 for number in numbers)}/{self.total}]"

    def _count(self, codes: list[int]) -> None:
        self.codes += codes
        if max(codes) > 128:
            raise SystemExit(max(codes))

    def _run_here(self, number: int) -> int:
        job = self.command.jobs[number]
        self.say([number], start_line(job))
        self._count([run_job(job, quiet=True)])
        return self.codes[-1]

    def _pack(self, numbers: Sequence[int], max_packed: int | None) -> None:
        jobs = [self.command.jobs[number] for number in numbers]
        above = os.path.commonpath([job.folder for job in jobs])
        device = jobs[0].typed.trainer.device
        self.say(numbers, f"packed: {describe(jobs)}, device {device}; run folders in {above}")
        if all(is_finished(job) for job in jobs):
            self._count([0] * len(jobs))
            return
        self._note_device(device)
        from attnlab.launch.pack.run_pack import run_pack

        try:
            codes = run_pack(jobs, max_packed)
        except Exception:
            traceback.print_exc()
            self.say(numbers, "failed: an unexpected error, above; repeat the command to go on")
            codes = [FAILED] * len(jobs)
        self._count(codes)

    def _beside_others(self, job: JobConfig, number: int) -> int:
        """A job in a worker: its lines carry its number, since those of other jobs stand between them."""
        self.say([number], start_line(job))
        code = run_job(job, quiet=True, label=self._label([number]))
        if not code:
            self.say([number], "finished")
        return code

    def _note_device(self, device: str) -> None:
        """Say once that packing is for GPUs."""
        import torch

        if not self.noted and (device == "cpu" or not torch.cuda.is_available()):
            print(
                "note: packing is for GPUs; on a CPU runs of published size are faster one after the other",
                file=sys.stderr,
            )
        self.noted = True
