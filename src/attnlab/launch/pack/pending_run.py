"""Runs that a pack is asked to train, before they are opened and after they have ended."""

from collections.abc import Sequence
from contextlib import ExitStack

from attnlab.config.job_config import JobConfig
from attnlab.config.message_text import show
from attnlab.config.pack_grouping import differing
from attnlab.launch.run_job import exit_code
from attnlab.run.finished_run import finished_result
from attnlab.run.read_checkpoints import reached_step
from attnlab.run.run_folder import RunFolder


class PendingRun:
    """A run to train: its job and folder, the step of its checkpoint, and its exit code.

    Args:
        name: values that distinguish the run from the others of the pack.

    Attributes:
        code: the exit code; None until the run has ended.
        locked: whether this process holds the run folder.
    """

    def __init__(self, job: JobConfig, name: str) -> None:
        self.job, self.config, self.name = job, job.typed, name
        self.folder = RunFolder(job.folder)
        self.code: int | None = None
        self.step, self.locked = 0, False

    def open(self, locks: ExitStack) -> None:
        """Lock the folder until `locks` is closed; a run that is finished, or cannot start, gets its exit code."""
        try:
            self.folder.create()
            locks.enter_context(self.folder.locked())
            self.locked = True
            if finished_result(self.folder, self.job) is not None:
                self.code = 0
            else:
                self.look_up_step()
        except Exception as error:
            self.code = exit_code(error, self._shown_name)

    def look_up_step(self) -> None:
        """Read the step of the last checkpoint."""
        self.step = reached_step(self.folder)

    def end(self, error: BaseException | None) -> None:
        """Record and report how the run ended; nothing is recorded in a folder that was never locked."""
        if self.locked:
            self.folder.record_end(error)
        self.code = 0 if error is None else exit_code(error, self._shown_name)

    @property
    def _shown_name(self) -> str:
        """The name in messages that do not stand below the pack's own line."""
        return f"{self.job.label}/{self.config.model.name}, {self.name}"


def pending_runs(jobs: Sequence[JobConfig]) -> list[PendingRun]:
    """Runs of jobs, named by the seed and the values in which jobs differ: `seed=1, lr=0.01`."""
    columns = {"seed": [show(job.typed.seed) for job in jobs]} | differing(jobs)
    titles = [key.rpartition(".")[2] for key in columns]
    rows = zip(*columns.values(), strict=True)
    names = [", ".join(f"{title}={value}" for title, value in zip(titles, row, strict=True)) for row in rows]
    return [PendingRun(job, name) for job, name in zip(jobs, names, strict=True)]


def not_ended(runs: Sequence[PendingRun]) -> list[PendingRun]:
    """Runs without an exit code."""
    return [run for run in runs if run.code is None]


def by_step(runs: Sequence[PendingRun]) -> list[list[PendingRun]]:
    """Runs that have not ended, in groups of the same step."""
    left = not_ended(runs)
    return [[run for run in left if run.step == step] for step in sorted({run.step for run in left})]


def end_all(runs: Sequence[PendingRun], error: BaseException) -> None:
    """End the runs that have not ended, with an error."""
    for run in not_ended(runs):
        run.end(error)
