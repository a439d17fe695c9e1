"""Runs one job, prints its errors, and returns its exit code. torch is imported when training starts."""

import io
import os
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attnlab.config.command_line.command_frame import FAILED
from attnlab.config.command_line.wandb_agent import agent_run_id, offline_note
from attnlab.config.job_config import JobConfig
from attnlab.config.message_text import short_path
from attnlab.config.problem import UserError
from attnlab.config.sweep import Command
from attnlab.launch.rank_processes import run_ranks
from attnlab.launch.visible_gpus import gpus_here
from attnlab.learn.devices.rank_layout import (
    AGENT,
    EndedElsewhere,
    RankError,
    RankLayout,
    end_if_left_open,
    layout_of,
    started_layout,
)
from attnlab.learn.stop_signals import Stopped, StopRequest
from attnlab.run.run_folder import RunError, RunFolder, is_finished, recorded_result


def run_job(job: JobConfig, quiet: bool, label: str = "", name: str = "") -> int:
    """Train or resume a run, or show the result of a finished one.

    Args:
        quiet: print no table of the run (a sweep prints one of all runs).
        label: printed before the lines of the run, if other processes write to the same terminal.
        name: of the job in messages; empty: its run folder.

    Returns:
        0, 1 (failed), or 128 plus the number of the signal that stopped it, state saved: 130 for Ctrl-C.
    """
    place = started_layout(os.environ)
    if place is not None and place.rank:
        return _follow(job, place)
    stop = StopRequest()
    try:
        result = recorded_result(job)
        shown = result is not None
        note_other_name(job)
        if note := offline_note(job.typed.logger.name):
            print(note, file=sys.stderr)
        if result is not None and agent_run_id() and job.typed.logger.name != "csv":
            from attnlab.run.wandb_mirror import log_finished_run

            if note := log_finished_run(job, result):
                print(note, file=sys.stderr)
        if not shown:
            if not quiet and job.typed.trainer.progress != "none":
                print(start_line(job), file=sys.stderr, flush=True)
            with stop.listening():
                layout = layout_of(job.typed.trainer, os.environ, gpus_here)
                result, shown = _train(job, stop, layout, label, name)
    except (Exception, Stopped) as error:
        folder = short_path(job.folder) if job.folder.exists() else start_line(job)
        code = _code_in_process(error, place, f"{label} {name}".strip() or folder)
        end_if_left_open(code)
        stop.pass_on()
        return code
    if not quiet and result is not None:
        from attnlab.launch.console_summary import print_run

        print_run(job, result, shown)
    return 0


def _code_in_process(error: BaseException, place: RankLayout | None, name: str) -> int:
    """As `exit_code`; a process of several prints nothing that another one prints.

    Under the agent of `rank_processes`, a process that ends because of another one ends without an error, so that the
    agent names the other one.
    """
    by_agent = place is not None and place.starter == AGENT
    if isinstance(error, EndedElsewhere):
        return 0 if by_agent else error.code
    if isinstance(error, Stopped) and place is not None and (by_agent or place.rank):
        return 128 + error.signum
    return exit_code(error, name)


def _train(
    job: JobConfig, stop: StopRequest, layout: RankLayout, label: str = "", name: str = ""
) -> tuple[dict[str, Any] | None, bool]:
    """Train a run as one of its processes, or in processes that are started here."""
    if layout.world > 1 and not layout.starter:
        run_ranks(run_job, job, layout.world, label, name)
        return recorded_result(job), False
    with stop.after_block():
        from attnlab.learn.devices.process_group import opened_ranks
        from attnlab.run.train_run import train_run
    with opened_ranks(layout, job.typed.trainer.device != "cpu", stop) as ranks:
        return train_run(job, stop, label, ranks)


def _follow(job: JobConfig, place: RankLayout) -> int:
    """Train a run as another rank than 0, which prints nothing but errors that rank 0 cannot report.

    Returns:
        the exit code, as of rank 0.
    """
    try:
        if recorded_result(job) is not None:
            return 0
        layout = layout_of(job.typed.trainer, os.environ, gpus_here)
    except (RunError, RankError):
        # said by rank 0
        return FAILED
    stop, code, nothing = StopRequest(), 0, io.StringIO()
    try:
        with redirect_stdout(nothing), redirect_stderr(nothing), stop.listening():
            _train(job, stop, layout)
    except (Exception, Stopped) as error:
        code = _code_in_process(error, place, f"rank {place.rank} of {short_path(job.folder)}")
        if place.starter != AGENT and isinstance(error, EndedElsewhere | RankError):
            lost = RankError("the process of rank 0 was lost; repeat the command to go on from the last checkpoint")
            RunFolder(job.folder).record_lost(error if isinstance(error, RankError) else lost)
    end_if_left_open(code)
    if code > 128:
        stop.pass_on()
    return code


def start_line(job: JobConfig) -> str:
    """Task, model, seed and device, known before torch is imported and data is read."""
    config = job.typed
    return f"task {job.label}, model {config.model.name}, seed {config.seed}, device {config.trainer.device}"


def note_other_name(job: JobConfig) -> None:
    """Print that a setting has run folders under another name, if it does."""
    if job.has_other_name:
        folder = short_path(job.folder)
        print(f"note: this setting has a folder under another name: {folder}", file=sys.stderr, flush=True)


def exit_code(error: BaseException, name: str) -> int:
    """Print why a run did not finish; returns its exit code.

    Args:
        name: of the run, in the message.
    """
    if isinstance(error, UserError):
        return _failed(name, str(error))
    if isinstance(error, Stopped):
        print(f"\nstopped: {name}; repeat the command to go on", file=sys.stderr)
        return 128 + error.signum
    from attnlab.config.classes.broken_packages import import_problem
    from attnlab.launch.device_errors import too_large, without_determinism

    if problem := import_problem(error):
        return _failed(name, problem)
    if advice := too_large(error):
        return _failed(name, f"it {advice}")
    if operation := without_determinism(error):
        return _failed(
            name,
            f"{operation} has no deterministic form on a GPU; use another operation, or write "
            "trainer.deterministic=false (equal seeds then give unequal numbers)",
        )
    traceback.print_exception(error)
    print(f"\nfailed: {name} (an unexpected error, above)", file=sys.stderr)
    return FAILED


def _failed(name: str, reason: str) -> int:
    print(f"\nfailed: {name}\n  {reason}", file=sys.stderr)
    return FAILED


@dataclass(frozen=True)
class JobTask:
    """A job of a sweep and what is printed about it.

    label:   number of the job in the sweep: `[3/12]`.
    name:    what varies in the sweep, `model=linear seed=0`.
    threads: of a run whose `trainer.threads` is null; None = as OMP_NUM_THREADS says.
    shares_terminal: other processes write to the same terminal, so that every line needs the label.
    needs_gpu: a GPU was asked for, so that `trainer.device=auto` must not become the CPU.
    """

    job: JobConfig
    label: str
    name: str
    threads: int | None = None
    shares_terminal: bool = False
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
        full_name = {"name": f"{self.label} {self.name}"}
        shown = {"label": self.label, "name": self.name} if self.shares_terminal else full_name
        code = run_job(self._placed(), quiet=True, **shown)
        if self.shares_terminal and not code:
            say(self.label, "finished")
        return code

    def _placed(self) -> JobConfig:
        """The job with the threads and the device of this process, where its configuration leaves them open."""
        trainer = self.job.typed.trainer
        trainer = replace(trainer, threads=self.threads) if trainer.threads is None else trainer
        trainer = replace(trainer, device="cuda") if self.needs_gpu and trainer.device == "auto" else trainer
        return replace(self.job, typed=replace(self.job.typed, trainer=trainer))


def job_tasks(command: Command) -> list[JobTask]:
    """The jobs of a sweep."""
    return [
        JobTask(job, f"[{number}/{len(command.jobs)}]", name)
        for number, (job, name) in enumerate(zip(command.jobs, command.names, strict=True), start=1)
    ]


def say(label: str, text: str) -> None:
    """Print a line about jobs; of several processes of torchrun or srun, rank 0 does."""
    place = started_layout(os.environ)
    if place is None or not place.rank:
        print(f"{label} {text}".lstrip(), file=sys.stderr, flush=True)
