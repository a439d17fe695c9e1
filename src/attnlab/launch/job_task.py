"""Runs a job of a sweep in this process. torch is imported when training starts."""

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from attnlab.config.job_config import JobConfig
from attnlab.launch.run_job import run_job
from attnlab.learn.devices.rank_layout import started_layout
from attnlab.run.finished_run import is_finished


@dataclass(frozen=True)
class JobTask:
    """A job of a sweep and what is printed about it.

    label:   number of the job in the sweep: `[3/12]`.
    name:    what varies in the sweep, `model=linear seed=0`.
    threads: of a run whose `trainer.threads` is null; None = as OMP_NUM_THREADS says.
    beside:  other processes write to the same terminal, so that every line needs the label.
    needs_gpu: a GPU was asked for, so that `trainer.device=auto` must not become the CPU.
    """

    job: JobConfig
    label: str
    name: str
    threads: int | None = None
    beside: bool = False
    needs_gpu: bool = False

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self.job.folder

    def run(self) -> int:
        """Run the job if it is not finished; returns the exit code."""
        if is_finished(self.job):
            return 0
        say(self.label, self.name)
        shown = {"label": self.label, "name": self.name} if self.beside else {"name": f"{self.label} {self.name}"}
        code = run_job(self._placed(), quiet=True, **shown)
        if self.beside and not code:
            say(self.label, "finished")
        return code

    def _placed(self) -> JobConfig:
        """The job with the threads and the device of this process, where its configuration leaves them open."""
        trainer = self.job.typed.trainer
        trainer = replace(trainer, threads=self.threads) if trainer.threads is None else trainer
        trainer = replace(trainer, device="cuda") if self.needs_gpu and trainer.device == "auto" else trainer
        return replace(self.job, typed=replace(self.job.typed, trainer=trainer))


def say(label: str, text: str) -> None:
    """Print a line about jobs; of several processes of torchrun or srun, rank 0 does."""
    place = started_layout(os.environ)
    if place is None or not place.rank:
        print(f"{label} {text}".lstrip(), file=sys.stderr, flush=True)
