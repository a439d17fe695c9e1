"""Runs the jobs of a sweep on Slurm: submits what is neither finished nor in the queue, and waits for all of it."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attnlab.config.command_line.command_frame import FAILED
from attnlab.config.message_text import counted, listed, short_path
from attnlab.config.problem import UserError
from attnlab.launch.cluster.queued_runs import queued_job
from attnlab.launch.cluster.slurm_commands import SlurmError, cancel_command, held_jobs
from attnlab.launch.cluster.submission import SlurmSubmission, sweep_folder
from attnlab.launch.cluster.wait_for_jobs import Awaited, wait_for_jobs
from attnlab.launch.launcher import Launcher
from attnlab.launch.run_job import JobTask, exit_code, say
from attnlab.learn.stop_signals import Stopped, StopRequest
from attnlab.run.run_folder import RunError, RunFolder, is_finished, require_writable
from attnlab.run.run_lock import acquired_lock, is_locked, private_locks


class SlurmLauncher(Launcher):
    """Jobs in the queue of Slurm; options: `launcher_options.SlurmConf`.

    Its errors are `SlurmError`: there is no Slurm, or it refuses the jobs. After a signal, submitted jobs go on.
    """

    def __init__(self, **options: Any) -> None:
        self.options = options

    def run(self, tasks: Sequence[JobTask]) -> list[int]:
        runs = Path(tasks[0].job.typed.paths.runs)
        submission = SlurmSubmission(self.options, sweep_folder(self.options, runs))
        _note_private_locks(runs)
        awaited: list[Awaited] = []
        stop = StopRequest()
        try:
            with stop.listening():
                # Of two commands that begin at once, the second finds the jobs of the first.
                with _submission_lock(runs):
                    if note := submission.gpu_note():
                        print(note, file=sys.stderr)
                    missing = _sorted_out(tasks, submission.cluster, awaited, submission.options)
                    _submit(missing, submission, awaited, stop)
                wait_for_jobs(awaited)
        except Stopped as stopped:
            print(f"\n{_left_behind(awaited, stop.deferred)}", file=sys.stderr)
            raise SystemExit(128 + stopped.signum) from None
        return [0 if is_finished(task.job) else FAILED for task in tasks]

    def plan(self, tasks: Sequence[JobTask]) -> list[str]:
        """Arrays and resources of the jobs."""
        try:
            submission, held = SlurmSubmission(self.options, Path()), held_jobs()
        except SlurmError as error:
            return [f"note: partitions and limits are not known here: {error}"]
        missing = [task for task in tasks if not queued_job(task.folder, submission.cluster, held)]
        queued = len(tasks) - len(missing)
        lines = [f"{counted(queued, 'run')} in the queue already"] if queued else []
        if not missing:
            return lines
        arrays = submission.arrays(missing)
        parts = counted(len(missing), "task"), counted(len(arrays), "array")
        resources = [submission.parameters(array[0]) for array in arrays]
        names = listed(dict.fromkeys(wanted.pop("job_name") for wanted in resources), most=3)
        shown = dict.fromkeys(", ".join(f"{key}={value}" for key, value in wanted.items()) for wanted in resources)
        lines += [note] if (note := submission.gpu_note()) else []
        lines.append(f"on Slurm: {parts[0]} in {parts[1]} of at most {submission.most:,} tasks, {names}")
        return lines + [f"each task asks for {text}; Slurm checks that when it is submitted" for text in shown]


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


def _sorted_out(tasks: Sequence[JobTask], cluster: str, awaited: list[Awaited], options: str) -> list[JobTask]:
    """Returns jobs to submit, and adds jobs in progress to `awaited`; finished runs are left out with a line.

    Args:
        options: of the launcher, as `Queued.options`.
    """
    held = held_jobs()
    missing: list[JobTask] = []
    seen: set[Path] = set()
    for task in tasks:
        if task.folder in seen:
            # as with two values of a key that mean the same
            say(task.label, f"{task.name}, an earlier job is the same run")
            continue
        seen.add(task.folder)
        if is_finished(task.job):
            say(task.label, f"{task.name}, finished before")
        elif queued := queued_job(task.folder, cluster, held):
            other = f", with other options of the launcher; for the new ones: {cancel_command([queued.job])}"
            advice = "" if queued.options == options else f"{other}, then repeat the command"
            say(task.label, f"{task.name}, in the queue already (job {queued.job}{advice})")
            awaited.append(Awaited(task, queued.job, queued.log))
        elif is_locked(task.folder):
            say(task.label, f"{task.name}, another process is training it; waiting for that process")
            awaited.append(Awaited(task, None, None))
        elif _has_folder(task):
            missing.append(task)
    return missing


def _has_folder(task: JobTask) -> bool:
    """Make the folder of a run, in which its job is recorded; a message says why that fails."""
    try:
        RunFolder(task.folder).create()
    except RunError as error:
        exit_code(error, f"{task.label} {task.name}")
        return False
    return True


def _submit(tasks: Sequence[JobTask], submission: SlurmSubmission, awaited: list[Awaited], stop: StopRequest) -> None:
    """Submit jobs; signals wait for the end of an array."""
    stop.deferred = True
    for part in submission.arrays(tasks):
        try:
            submitted = submission.submit(part)
        except UserError as error:
            if not any(awaited_job.job for awaited_job in awaited):
                raise
            # such as a limit on the jobs of an account
            print(
                f"note: {error}; waiting for those in the queue, then repeat the command", file=sys.stderr, flush=True
            )
            break
        awaited += submitted
        print(_line(submitted, submission.parameters(part[0])["job_name"]), file=sys.stderr, flush=True)
        if stop.pending() is not None:
            break
    stop.deferred = False
    if (signum := stop.pending()) is not None:
        raise Stopped(signum)
    if tasks:
        print(f"logs: {short_path(submission.folder)}", file=sys.stderr, flush=True)


def _line(submitted: Sequence[Awaited], name: str) -> str:
    first, last = str(submitted[0].job), str(submitted[-1].job).rpartition("_")[2]
    where = f"job {first}" if len(submitted) == 1 else f"job {first.partition('_')[0]}, tasks 0-{last}"
    return f"submitted: {counted(len(submitted), 'run')} as {name}, {where}"


def _left_behind(awaited: Sequence[Awaited], submitting: bool) -> str:
    """Which jobs go on without this command.

    Args:
        submitting: whether it was stopped in the middle of that.
    """
    jobs = [submitted.job for submitted in awaited if submitted.job is not None]
    if submitting:
        return "stopped while Slurm was taking jobs; repeat the command, which finds the ones that were taken"
    if not jobs:
        return "stopped: nothing was submitted"
    return f"no longer waiting; the jobs go on. Repeat the command to wait again; to end them: {cancel_command(jobs)}"


def _note_private_locks(runs: Path) -> None:
    """Print that another machine would not notice a run of this one, if the file system keeps locks to itself."""
    if mount := private_locks(runs.absolute()):
        print(
            f"note: {mount} does not show locks to other machines: start no run of {short_path(runs)} by hand while "
            "its job is in the queue",
            file=sys.stderr,
        )
