"""Waits for jobs on Slurm, and says what becomes of them: started, back in the queue, finished, failed."""

import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnlab.config.message_text import counted, listed, short_path
from attnlab.launch.cluster.queued_runs import forget_queued
from attnlab.launch.cluster.slurm_commands import SlurmError, SlurmJob, cancel_command, final_state, held_jobs
from attnlab.launch.run_job import JobTask, say
from attnlab.run.run_folder import RunError, RunFolder, is_finished
from attnlab.run.run_lock import is_locked

SHORTEST, LONGEST = 2.0, 30.0
"""seconds between two questions to Slurm: after news the shortest time, then longer and longer"""
LATE_FILES = 20.0
"""seconds until a file that another machine wrote is surely seen here"""
ENDED = ("failed", "stopped")
"""states of runs that no process trains any more"""
EXPECTED = ("", "None", "Priority", "Resources", "BeginTime", "JobArrayTaskLimit", "Dependency", "Prolog")
"""reasons for which every job waits for a while"""
NODES_AWAY = "Nodes required"
"""beginning of such a reason, with a list of nodes"""


@dataclass
class Awaited:
    """A job that is waited for.

    job:  its id on Slurm; None: a process that is not known here trains it.
    log:  file with the job's output.
    seen: the last state that Slurm told.
    stop: the last stop of its run that is known, as in status.json.
    """

    task: JobTask
    job: str | None
    log: Path | None
    seen: SlurmJob | None = field(default=None, init=False)
    stop: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.stop = self.last_stop()

    def last_stop(self) -> Mapping[str, Any]:
        """The last stop of the run; empty if there was none."""
        try:
            return RunFolder(self.task.folder).status().get("last_stop", {})
        except RunError:
            return {}

    def is_there(self, held: Mapping[str, SlurmJob]) -> bool:
        """Whether the job waits or runs."""
        if self.job is None:
            return is_locked(self.task.folder)
        return self.job in held


def wait_for_jobs(left: list[Awaited]) -> None:
    """Wait until no job is in the queue or running; Slurm may be out of reach for a while.

    Args:
        left: what is waited for; jobs that have ended are removed.
    """
    pause, noted, silent = SHORTEST, set[str](), False
    while left:
        try:
            held = held_jobs()
        except SlurmError as error:
            if not silent:
                print(f"note: {error}; still waiting", file=sys.stderr, flush=True)
            silent = True
            time.sleep(LONGEST)
            continue
        silent = False
        news = _print_waiting(left, held, noted)
        ended = [job for job in left if not job.is_there(held)]
        for job in ended:
            left.remove(job)
        if ended:
            _await_files(ended)
            news = True
        for job in ended:
            _print_end(job)
        news |= any([_print_change(job, held) for job in left])
        pause = SHORTEST if news else min(pause * 1.5, LONGEST)
        if left:
            time.sleep(pause)


def _print_change(job: Awaited, held: Mapping[str, SlurmJob]) -> bool:
    """Print that a job began, or went back into the queue; returns whether it did."""
    now = held.get(job.job or "")
    if now is None:
        return False
    before, job.seen = job.seen, now
    again = before is not None and now.restarts > before.restarts
    if again:
        say(job.task.label, f"job {job.job} is back in the queue{_why(job)}; it goes on later")
    begins = now.state == "RUNNING" and (again or before is None or before.state != "RUNNING")
    if begins:
        say(job.task.label, f"{job.task.name}: job {job.job} runs on {now.nodes}")
    return again or begins


def _why(job: Awaited) -> str:
    """The signal that stopped a run, and its step; empty if the run could not be saved."""
    before, job.stop = job.stop, job.last_stop()
    return "" if job.stop == before else f" ({job.stop['reason']}, step {job.stop['step']:,})"


def _print_waiting(left: Sequence[Awaited], held: Mapping[str, SlurmJob], noted: set[str]) -> bool:
    """Print once for each reason why jobs wait that may keep them for ever."""
    waiting: dict[str, list[str]] = defaultdict(list)
    for awaited_job in left:
        job = held.get(awaited_job.job or "")
        if awaited_job.job and job and job.state == "PENDING" and not _is_expected(job.reason):
            waiting[job.reason].append(awaited_job.job)
    new = {reason: jobs for reason, jobs in waiting.items() if reason not in noted}
    noted.update(new)
    for reason, jobs in new.items():
        why = f"{reason}, which man squeue explains; for other options: {cancel_command(jobs)}, then repeat"
        print(f"note: {counted(len(jobs), 'job')} waiting ({listed(jobs, 3)}): {why}", file=sys.stderr, flush=True)
    return bool(new)


def _is_expected(reason: str) -> bool:
    return reason in EXPECTED or reason.startswith(NODES_AWAY)


def _await_files(ended: Sequence[Awaited]) -> None:
    """Wait until the files of all runs say how they ended, or can no longer be late."""
    deadline = time.monotonic() + LATE_FILES
    unfinished = [awaited_job.task.job for awaited_job in ended]
    while unfinished and time.monotonic() < deadline:
        unfinished = [job for job in unfinished if not is_finished(job) and _state(job.folder) not in ENDED]
        if unfinished:
            time.sleep(1)


def _print_end(job: Awaited) -> None:
    """Print how a job ended."""
    if is_finished(job.task.job):
        forget_queued(job.task.folder)
        say(job.task.label, "finished")
        return
    parts = []
    if job.job is not None and (state := final_state(job.job)):
        parts.append(f"job {job.job} is {state}")
    began = job.log is None or job.log.exists()
    if began:
        # else what the run folder says is from an earlier job
        parts.append(_reason(job.task.folder))
    if job.log is not None and began:
        parts.append(f"log: {short_path(job.log)}")
    say(job.task.label, f"{job.task.name}: {'; '.join(parts) or 'its job has ended before it began'}")


def _state(folder: Path) -> str:
    try:
        return str(RunFolder(folder).status().get("state", ""))
    except RunError:
        return "failed"


def _reason(folder: Path) -> str:
    """State of a run that is not finished, and why."""
    try:
        status = RunFolder(folder).status()
    except RunError as error:
        return str(error)
    state = status.get("state", "its job ended before the run began")
    if state == "running":
        return f"its job ended without a word at step {status.get('step', 0):,}"
    reason = status.get("reason", "")
    return f"{state}: {reason}" if reason else state
