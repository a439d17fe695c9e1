"""The runs that a pack is asked for, until they are opened and after they have ended."""

import time
from collections.abc import Sequence
from contextlib import ExitStack

from attnlab.config.job_config import JobConfig
from attnlab.config.pack_grouping import differing
from attnlab.config.suggest import show
from attnlab.launch.run_job import exit_code
from attnlab.run.finished_run import finished_result
from attnlab.run.read_checkpoints import reached_step
from attnlab.run.run_folder import RunFolder
from attnlab.run.run_lifecycle import ended


class Entry:
    """A run that is asked for: its configuration and folder, and its exit code once it has ended.

    Args:
        name: what tells it from the others of the pack.
    """

    def __init__(self, job: JobConfig, name: str) -> None:
        self.job, self.config, self.name = job, job.typed, name
        self.folder = RunFolder(job.folder)
        self.code: int | None = None
        self.step, self.held = 0, False

    def open(self, held: ExitStack) -> None:
        """Lock the folder until `held` ends; a run that is finished, or cannot begin, gets its exit code."""
        try:
            self.folder.create()
            held.enter_context(self.folder.locked())
            self.held = True
            if finished_result(self.folder, self.job) is not None:
                self.code = 0
            else:
                self.look_up_step()
        except Exception as error:
            self.code = exit_code(error, self.folder.path)

    def look_up_step(self) -> None:
        """The step that the last checkpoint holds by now."""
        self.step = reached_step(self.folder)

    def end(self, error: BaseException | None) -> None:
        """Record and say how the run ended; one that was never opened has nothing to record."""
        if self.held:
            ended(self.folder, error)
        self.code = 0 if error is None else exit_code(error, self.folder.path)


def entries_of(jobs: Sequence[JobConfig]) -> list[Entry]:
    """The runs of jobs, with names that tell them apart."""
    return [Entry(job, name) for job, name in zip(jobs, _names(jobs), strict=True)]


def _names(jobs: Sequence[JobConfig]) -> list[str]:
    """Values in which each job differs from another one, and its seed: `seed=1, lr=0.01`."""
    columns = {"seed": [show(job.typed.seed) for job in jobs]} | differing(jobs)
    return [", ".join(f"{k.rpartition('.')[2]}={c[row]}" for k, c in columns.items()) for row in range(len(jobs))]


def by_step(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Runs that have not ended, those at the same step together."""
    left = [entry for entry in entries if entry.code is None]
    return [[entry for entry in left if entry.step == step] for step in sorted({entry.step for entry in left})]


def fail(entries: Sequence[Entry], error: Exception) -> None:
    for entry in entries:
        entry.end(error)


class SharedTime:
    """Seconds of a pack, of which each run that lives has an equal share."""

    def __init__(self) -> None:
        self.seconds, self.seen = 0.0, time.monotonic()

    def __call__(self) -> float:
        return self.seconds

    def pass_on(self, sharing: int) -> None:
        """The time since the last call, for so many runs."""
        now = time.monotonic()
        self.seconds, self.seen = self.seconds + (now - self.seen) / max(sharing, 1), now
