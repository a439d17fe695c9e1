"""`python train.py ... --plan`: jobs, groups and hours of a sweep, without starting or submitting anything."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Column, Table

from attnlab.config.job_config import JobConfig
from attnlab.config.message_text import counted, listed, table_console
from attnlab.config.slurm_options import ON_SLURM
from attnlab.config.sweep import Command
from attnlab.launch.cluster.queued_runs import queued_job
from attnlab.launch.cluster.slurm_commands import SlurmError, held_jobs
from attnlab.launch.cluster.submission import SlurmSubmission
from attnlab.launch.group_task import GroupTask
from attnlab.launch.job_groups import job_groups
from attnlab.launch.measured_steps import MeasuredStep, measured_step
from attnlab.launch.run_jobs import Jobs
from attnlab.run.finished_run import is_finished
from attnlab.run.run_folder import RunError, RunFolder

SHORT_RUN = 300
"""steps of a run that measures a step"""


@dataclass(frozen=True)
class PlannedGroup:
    """A group of jobs with what is left to do.

    left:  jobs that are not finished.
    steps: training steps that these have left; None where the number is known after the data is read only.
    step:  a measured step; None if there is none.
    """

    task: GroupTask
    left: Sequence[JobConfig]
    steps: int | None
    step: MeasuredStep | None

    @property
    def hours(self) -> float | None:
        """Hours of training that are left, of all devices together, as the step was measured; without evaluations."""
        if self.steps is None or self.step is None:
            return None
        return self.steps * self.step.seconds * self.step.devices / 3600


def print_plan(command: Command) -> int:
    """Print the plan of a command; returns the exit code."""
    # One run is trained by this process, whatever the launcher.
    jobs, launcher = Jobs(command), command.launcher if command.multirun else {"name": "basic"}
    groups = [jobs.task(group) for group in job_groups(command.jobs, launcher)]
    planned = [_planned(task) for task in groups]
    left = [plan for plan in planned if plan.left]
    runs = len({job.folder for job in command.jobs})
    done = runs - len({job.folder for plan in left for job in plan.left})
    how = f", hydra/launcher={launcher['name']}" if command.multirun else ""
    print(f"{counted(runs, 'run')}, {done:,} finished; {counted(len(left), 'group')} to train{how}")
    if left:
        table_console().print(_table(left))
        print("\n".join([*_hours(left), *_on_slurm(launcher, [plan.task for plan in left])]))
    print("nothing was started: this is a plan")
    return 0


def _planned(task: GroupTask) -> PlannedGroup:
    left = [job for job in task.jobs if not is_finished(job)]
    steps = [_steps_left(job) for job in left]
    known = sum(step for step in steps if step is not None) if None not in steps else None
    return PlannedGroup(task, left, known, measured_step(left[0], len(left) > 1) if left else None)


def _steps_left(job: JobConfig) -> int | None:
    total = job.typed.train.max_steps
    try:
        done = RunFolder(job.folder).status().get("step", 0)
    except RunError:
        done = 0
    return None if total is None else max(0, total - done)


def _table(plans: Sequence[PlannedGroup]) -> Table:
    """A row for the groups of a task and model with the same measured step."""
    names = [Column(name, justify="right") for name in ("groups", "runs", "steps left", "ms a step of a run", "hours")]
    table = Table("task and model", *names, "measured on", box=SIMPLE_HEAD)
    rows: dict[tuple[str, MeasuredStep | None], list[PlannedGroup]] = defaultdict(list)
    for plan in plans:
        rows[f"{plan.left[0].label} {plan.left[0].typed.model.name}", plan.step].append(plan)
    for (name, step), alike in rows.items():
        steps, hours = ([getattr(plan, key) for plan in alike] for key in ("steps", "hours"))
        on = "" if step is None else _measured_on(step)
        table.add_row(
            name,
            f"{len(alike):,}",
            f"{sum(len(plan.left) for plan in alike):,}",
            "-" if None in steps else f"{sum(steps):,}",
            "-" if step is None else f"{step.seconds * 1000:,.1f}",
            "-" if None in hours else f"{sum(hours):,.2f}",
            on,
        )
    return table


def _measured_on(step: MeasuredStep) -> str:
    how = [] if step.alike else [f"model={step.model}, of the same sizes"]
    how += [f"{step.together} runs together"] if step.together > 1 else []
    how += [f"a run on {step.devices} devices"] if step.devices > 1 else []
    return f"{step.hardware} ({'; '.join(how)})" if how else step.hardware


def _hours(plans: Sequence[PlannedGroup]) -> list[str]:
    """Hours by hardware, and what has no measured step."""
    by_hardware: dict[tuple[str, bool], float] = defaultdict(float)
    for plan in plans:
        if plan.hours is not None and plan.step is not None:
            by_hardware[plan.step.hardware, plan.step.is_gpu] += plan.hours
    lines = [
        f"{'GPU-hours' if is_gpu else 'hours'}: {hours:,.2f} on {hardware}, by measured steps (no validations or tests)"
        for (hardware, is_gpu), hours in by_hardware.items()
    ]
    unknown = [plan for plan in plans if plan.step is None]
    if unknown:
        names = dict.fromkeys(plan.left[0].typed.model.name for plan in unknown)
        lines.append(
            f"no hours for {listed(names, most=8)}: no run of this task and these sizes was measured; the same command "
            f"with train.max_steps={SHORT_RUN} measures them"
        )
    if any(plan.steps is None for plan in plans):
        lines.append("runs with train.max_epochs have no hours: their steps are known after the data is read")
    return lines


def _on_slurm(launcher: Mapping[str, Any], tasks: Sequence[GroupTask]) -> list[str]:
    """Arrays and resources of the jobs on Slurm."""
    if launcher["name"] not in ON_SLURM:
        return []
    try:
        submission, held = SlurmSubmission(launcher, Path()), held_jobs()
    except SlurmError as error:
        return [f"note: partitions and limits are not known here: {error}"]
    queued = [job for task in tasks for job in task.jobs if queued_job(job.folder, submission.cluster, held)]
    folders = {job.folder for job in queued}
    tasks = [task for task in tasks if not task.folders <= folders]
    waiting = [f"{counted(len(folders), 'run')} in the queue already"] if folders else []
    if not tasks:
        return waiting
    arrays = submission.arrays(tasks)
    size = f"{counted(len(tasks), 'task')} in {counted(len(arrays), 'array')} of at most {submission.most:,} tasks"
    wanted = [submission.parameters(array[0]) for array in arrays]
    shown = [", ".join(f"{key}={value}" for key, value in one.items() if key != "job_name") for one in wanted]
    names = listed(dict.fromkeys(one["job_name"] for one in wanted), most=3)
    asked = [f"each task asks for {one}; Slurm checks that when it is submitted" for one in dict.fromkeys(shown)]
    waiting += [note] if (note := submission.gpu_note()) else []
    return [*waiting, f"on Slurm: {size}, {names}", *asked]
