"""Runs a group of jobs in this process: one job, or several that are trained together. torch is imported when training
starts.
"""

import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from attnlab.config.command_frame import FAILED
from attnlab.config.job_config import JobConfig
from attnlab.config.pack_grouping import describe
from attnlab.launch.run_job import note_other_name, run_job
from attnlab.learn.devices.rank_layout import started_layout
from attnlab.run.finished_run import is_finished


@dataclass(frozen=True)
class GroupTask:
    """A group of jobs and what is printed about it.

    label:   numbers of the jobs in the sweep: `[3/12]`.
    name:    what varies in the sweep, `model=linear seed=0`.
    reason:  why a job of a launcher that packs is alone; else empty.
    threads: of a run whose `trainer.threads` is null; None = as OMP_NUM_THREADS says.
    beside:  other processes write to the same terminal, so that every line needs the label.
    max_packed: number of runs trained at once, at most; None: as many as fit into memory.
    needs_gpu: a GPU was asked for, so that `trainer.device=auto` must not become the CPU.
    """

    jobs: tuple[JobConfig, ...]
    label: str
    name: str
    threads: int | None = None
    beside: bool = False
    max_packed: int | None = None
    needs_gpu: bool = False
    reason: str = ""

    @property
    def folders(self) -> set[Path]:
        """The run folders."""
        return {job.folder for job in self.jobs}

    @property
    def title(self) -> str:
        """Name and reason."""
        return f"{self.name}, alone: {self.reason}" if self.reason else self.name

    def run(self) -> int:
        """Run the jobs that are not finished; returns the largest exit code."""
        finished = sum(map(is_finished, self.jobs))
        if len(self.jobs) > 1:
            code = self._run_pack(finished)
        elif finished:
            code = 0
        else:
            code = self._run_one(self.jobs[0])
        if self.beside and not code and finished < len(self.jobs):
            say(self.label, "finished")
        return code

    def _run_one(self, job: JobConfig) -> int:
        say(self.label, self.title)
        shown = {"label": self.label, "name": self.name} if self.beside else {"name": f"{self.label} {self.name}"}
        return run_job(self._placed(job), quiet=True, **shown)

    def _run_pack(self, finished: int) -> int:
        device, total = self.jobs[0].typed.trainer.device, len(self.jobs)
        left = f"; {finished} finished before, {total - finished} to train" if finished else ""
        say(self.label, f"packed: {describe(self.jobs)}, device {device}{left}")
        if finished == total:
            return 0
        from attnlab.launch.pack.run_pack import run_pack

        for job in self.jobs:
            note_other_name(job)
        try:
            label = self.label if self.beside else ""
            return max(run_pack([self._placed(job) for job in self.jobs], self.max_packed, label))
        except Exception:
            traceback.print_exc()
            say(self.label, "failed: an unexpected error, above; repeat the command to go on")
            return FAILED

    def _placed(self, job: JobConfig) -> JobConfig:
        """The job with the threads and the device of this process, where its configuration leaves them open."""
        trainer = job.typed.trainer
        trainer = replace(trainer, threads=self.threads) if trainer.threads is None else trainer
        trainer = replace(trainer, device="cuda") if self.needs_gpu and trainer.device == "auto" else trainer
        return replace(job, typed=replace(job.typed, trainer=trainer))


def say(label: str, text: str) -> None:
    """Print a line about jobs; of several processes of torchrun or srun, rank 0 does."""
    place = started_layout(os.environ)
    if place is None or not place.rank:
        print(f"{label} {text}".lstrip(), file=sys.stderr, flush=True)


def packing_note(tasks: Sequence[GroupTask]) -> str:
    """Note that packing is meant for GPUs, where runs would be packed on a CPU; else empty."""
    packs = [task for task in tasks if len(task.jobs) > 1 and not all(map(is_finished, task.jobs))]
    if not packs:
        return ""
    if packs[0].jobs[0].typed.trainer.device != "cpu":
        import torch

        if torch.cuda.is_available():
            return ""
    return "note: packing is for GPUs; on a CPU runs of published size are faster one after the other"
