"""Runs the groups of a sweep on Slurm: submits what is neither finished nor in the queue, and waits for all of it."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from attnlab.config.job_config import JobConfig
from attnlab.config.message_text import counted, short_path
from attnlab.config.user_error import UserError
from attnlab.launch.cluster.queued_runs import Queued, queued_job
from attnlab.launch.cluster.slurm_commands import SlurmJob, cancel_command, held_jobs
from attnlab.launch.cluster.submission import SlurmSubmission, Submitted, sweep_folder
from attnlab.launch.cluster.wait_for_jobs import Awaited, wait_for_jobs
from attnlab.launch.group_task import GroupTask, say
from attnlab.launch.run_job import exit_code
from attnlab.learn.run_lock import acquired_lock, is_locked, mounts, private_locks
from attnlab.learn.stop_signals import Stopped, StopRequest
from attnlab.run.finished_run import is_finished
from attnlab.run.run_folder import RunError, RunFolder, require_writable


def run_on_cluster(tasks: Sequence[GroupTask], launcher: Mapping[str, Any], runs: str) -> None:
    """Submit groups of jobs and wait until Slurm holds none of them any more.

    Args:
        launcher: name and options of the launcher.
        runs: folder of the runs (`paths.runs`).

    Raises:
        SlurmError: there is no Slurm, or it refuses the jobs.
        SystemExit: a signal ended the waiting; submitted jobs go on.
    """
    folder = sweep_folder(launcher, runs)
    submission = SlurmSubmission(launcher, folder)
    _note_private_locks(Path(runs))
    awaited: list[Awaited] = []
    stop = StopRequest()
    try:
        with stop.listening():
            # Of two commands that begin at once, the second finds the jobs of the first.
            with _submission_lock(Path(runs)):
                if note := submission.gpu_note():
                    print(note, file=sys.stderr)
                missing = _sorted_out(tasks, submission.cluster, awaited, submission.options)
                _submit(missing, submission, awaited, stop)
            wait_for_jobs(awaited)
    except Stopped as stopped:
        print(f"\n{_left_behind(awaited, stop.deferred)}", file=sys.stderr)
        raise SystemExit(128 + stopped.signum) from None


@contextmanager
def _submission_lock(runs: Path) -> Iterator[None]:
    """Hold a lock while a command looks for runs in progress and submits the others."""
    folder = runs / ".sweeps"
    require_writable(folder, "set another paths.runs")
    lock = acquired_lock(folder, seconds=-1.0)
    try:
        yield
    finally:
        lock.release()


def _sorted_out(tasks: Sequence[GroupTask], cluster: str, awaited: list[Awaited], options: str) -> list[GroupTask]:
    """Returns groups to submit, and adds groups in progress to `awaited`; finished runs are left out with a line.

    Args:
        options: of the launcher, as `Queued.options`.
    """
    held = held_jobs()
    missing: list[GroupTask] = []
    seen: set[Path] = set()
    for task in tasks:
        parts: dict[str | Queued, list[JobConfig]] = {}
        for job in task.jobs:
            if job.folder in seen:
                # as with two values of a key that mean the same
                say(task.label, f"{task.name}, an earlier job is the same run")
                continue
            seen.add(job.folder)
            parts.setdefault(_place(job, cluster, held), []).append(job)
        if len(parts.get("finished", [])) == len(task.jobs):
            say(task.label, f"{task.name}, finished before")
        for place, jobs in parts.items():
            part = replace(task, jobs=tuple(jobs))
            name = task.name if len(jobs) == len(task.jobs) else f"{len(jobs)} of {task.name}"
            if isinstance(place, Queued):
                other = f", with other options of the launcher; for the new ones: {cancel_command([place.job])}"
                said = "" if place.options == options else f"{other}, then repeat the command"
                say(task.label, f"{name}, in the queue already (job {place.job}{said})")
                awaited.append(Awaited(part, place.job, place.log))
            elif place == "elsewhere":
                say(task.label, f"{name}, another process is training it; waiting for that process")
                awaited.append(Awaited(part, None, None))
            elif place == "missing":
                usable = [job for job in jobs if _has_folder(job, f"{task.label} {task.name}")]
                missing += [replace(task, jobs=tuple(usable))] if usable else []
    return missing


def _place(job: JobConfig, cluster: str, held: Mapping[str, SlurmJob]) -> str | Queued:
    """Where a run is: the job that has it, or finished, elsewhere (in another process), or missing."""
    if is_finished(job):
        return "finished"
    if queued := queued_job(job.folder, cluster, held):
        # one value for all runs of a group
        return replace(queued, folder="")
    return "elsewhere" if is_locked(job.folder) else "missing"


def _has_folder(job: JobConfig, name: str) -> bool:
    """Make the folder of a run, in which its job is recorded; a message says why that fails."""
    try:
        RunFolder(job.folder).create()
    except RunError as error:
        exit_code(error, name)
        return False
    return True


def _submit(tasks: Sequence[GroupTask], submission: SlurmSubmission, awaited: list[Awaited], stop: StopRequest) -> None:
    """Submit groups; signals wait for the end of an array."""
    stop.deferred = True
    for part in submission.arrays(tasks):
        try:
            submitted = submission.submit(part)
        except UserError as error:
            if not any(one.job for one in awaited):
                raise
            # such as a limit on the jobs of an account
            print(
                f"note: {error}; waiting for those in the queue, then repeat the command", file=sys.stderr, flush=True
            )
            break
        awaited += [Awaited(one.task, one.job, one.log) for one in submitted]
        print(_line(submitted), file=sys.stderr, flush=True)
        if stop.pending() is not None:
            break
    stop.deferred = False
    if (signum := stop.pending()) is not None:
        raise Stopped(signum)
    if tasks:
        print(f"logs: {short_path(submission.folder)}", file=sys.stderr, flush=True)


def _line(submitted: Sequence[Submitted]) -> str:
    jobs, runs = [one.job for one in submitted], sum(len(one.task.jobs) for one in submitted)
    first, last = jobs[0], jobs[-1].rpartition("_")[2]
    where = f"job {first}" if len(jobs) == 1 else f"job {first.partition('_')[0]}, tasks 0-{last}"
    groups = "" if runs == len(jobs) else f" in {counted(len(jobs), 'group')}"
    return f"submitted: {counted(runs, 'run')}{groups} as {submitted[0].name}, {where}"


def _left_behind(awaited: Sequence[Awaited], submitting: bool) -> str:
    """Which jobs go on without this command.

    Args:
        submitting: whether it was stopped in the middle of that.
    """
    jobs = [one.job for one in awaited if one.job is not None]
    if submitting:
        return "stopped while Slurm was taking jobs; repeat the command, which finds the ones that were taken"
    if not jobs:
        return "stopped: nothing was submitted"
    return f"no longer waiting; the jobs go on. Repeat the command to wait again; to end them: {cancel_command(jobs)}"


def _note_private_locks(runs: Path) -> None:
    """Print that another machine would not notice a run of this one, if the file system keeps locks to itself."""
    if mount := private_locks(runs.absolute(), mounts()):
        print(
            f"note: {mount} does not show locks to other machines: start no run of {short_path(runs)} by hand while "
            "its job is in the queue",
            file=sys.stderr,
        )
