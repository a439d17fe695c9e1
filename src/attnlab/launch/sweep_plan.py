"""`python train.py ... --plan`: jobs, groups and hours of a sweep, without starting or submitting anything."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Column, Table

from attnlab.config.job_config import JobConfig
from attnlab.config.message_text import counted, listed, table_console
from attnlab.config.run_identity import identity, tag_parts
from attnlab.config.shipped_files import CONF
from attnlab.config.slurm_options import ON_SLURM
from attnlab.config.sweep import Command
from attnlab.launch.cluster.queued_runs import queued_job
from attnlab.launch.cluster.slurm_commands import SlurmError, held_jobs
from attnlab.launch.cluster.submission import SlurmSubmission
from attnlab.launch.group_task import GroupTask
from attnlab.launch.job_groups import job_groups
from attnlab.launch.measured_steps import measured_step
from attnlab.launch.run_jobs import Jobs
from attnlab.run.finished_run import is_finished
from attnlab.run.run_folder import RunError, RunFolder

SHORT_RUN = 300
"""steps of a run that measures a step"""
_SIZES = {
    "backbone": ("d_model", "n_heads", "n_layers", "n_decoder_layers", "d_feed_forward"),
    "task": ("length", "max_length", "vocabulary_size", "tokens"),
    "train": ("batch_size", "batch_tokens", "accumulate", "max_tokens", "precision"),
    "trainer": ("devices", "nodes"),
}
"""keys for which a guess holds at the values of its task or experiment only"""


@dataclass(frozen=True)
class PlannedStep:
    """The time of a training step of one run.

    seconds:  the least and the most; equal where a step was measured.
    devices:  that train the run together.
    is_guess: of the configuration (`cost`); else measured.
    remarks:  on what was measured.
    """

    seconds: tuple[float, float]
    hardware: str
    is_gpu: bool
    devices: int = 1
    is_guess: bool = False
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedGroup:
    """A group of jobs with what is left to do.

    left:  jobs that are not finished, and of no experiment planned before.
    steps: training steps that these have left; None where the number is known after the data is read only.
    step:  the time of a step; None if nothing is known of it.
    """

    task: GroupTask
    left: Sequence[JobConfig]
    steps: int | None
    step: PlannedStep | None

    @property
    def hours(self) -> tuple[float, float] | None:
        """Least and most hours of training that are left, of all devices together; without evaluations."""
        if self.steps is None or self.step is None:
            return None
        least, most = (self.steps * seconds * self.step.devices / 3600 for seconds in self.step.seconds)
        return least, most


def print_plan(commands: Mapping[str, Command]) -> int:
    """Print the plan of the commands of one or several experiments, by their names; returns the exit code.

    A run that several experiments share is one of the first of them.
    """
    seen: set[str] = set()
    plans = {name: _planned(command, seen) for name, command in commands.items()}
    left = {name: [plan for plan in groups if plan.left] for name, groups in plans.items()}
    groups = [plan for name in left for plan in left[name]]
    done = len(seen) - len({_setting(job) for plan in groups for job in plan.left})
    (command, *others) = commands.values()
    how = f", hydra/launcher={_launcher(command)['name']}" if command.multirun and not others else ""
    print(f"{counted(len(seen), 'run')}, {done:,} finished; {counted(len(groups), 'group')} to train{how}")
    if groups:
        names = None if not others else {id(plan): name for name in left for plan in left[name]}
        table_console().print(_table(groups, names))
        print("\n".join(_hours(groups)))
    if groups and not others:
        print("".join(f"{line}\n" for line in _on_slurm(_launcher(command), [plan.task for plan in groups])), end="")
    if others and (without := [name for name, found in left.items() if not found]):
        print(f"nothing left of {listed(without, most=8)}: finished, or of an experiment named before")
    print("nothing was started: this is a plan")
    return 0


def _launcher(command: Command) -> Mapping[str, Any]:
    # One run is trained by this process, whatever the launcher.
    return command.launcher if command.multirun else {"name": "basic"}


def _planned(command: Command, seen: set[str]) -> list[PlannedGroup]:
    """The groups of a command without the runs in `seen`, to which its own are added."""
    jobs, found = Jobs(command), []
    for task in map(jobs.task, job_groups(command.jobs, _launcher(command))):
        settings = [_setting(job) for job in task.jobs]
        left = [
            job
            for job, setting in zip(task.jobs, settings, strict=True)
            if not is_finished(job) and setting not in seen
        ]
        steps = [_steps_left(job) for job in left]
        known = sum(step for step in steps if step is not None) if None not in steps else None
        found.append(PlannedGroup(task, left, known, _step(left, command) if left else None))
        seen.update(settings)
    return found


def _setting(job: JobConfig) -> str:
    """Settings and seed of a job: one run has other folder names in other experiments."""
    return str(identity(job.raw))


def _step(jobs: Sequence[JobConfig], command: Command) -> PlannedStep | None:
    """The measured step of jobs of one group, else the guess of their configuration; None without one."""
    step, guess = measured_step(jobs[0], len(jobs) > 1), jobs[0].typed.cost
    if step is None and guess.ms_a_step and _guess_holds(jobs[0], command):
        times = min(guess.ms_a_step) / 1000, max(guess.ms_a_step) / 1000
        return PlannedStep(times, f"one {guess.hardware}", "GPU" in guess.hardware, is_guess=True)
    if step is None:
        return None
    remarks = [] if step.is_of(jobs[0]) else [f"model={step.model}, of the same sizes"]
    remarks += [f"{step.together} runs together"] if step.together > 1 else []
    remarks += [f"a run on {step.devices} devices"] if step.devices > 1 else []
    return PlannedStep((step.seconds,) * 2, step.hardware, step.is_gpu, step.devices, remarks=tuple(remarks))


def _guess_holds(job: JobConfig, command: Command) -> bool:
    """Whether the command line leaves a job the hardware and the sizes that the guess of its task or experiment is for,
    or has a guess itself."""
    words = {word.partition("=")[0].lstrip("+"): word for word in command.words}
    if "cost.ms_a_step" in words:
        return True
    if "debug" in words or job.typed.trainer.device == ("cpu" if "GPU" in job.typed.cost.hardware else "cuda"):
        return False
    sizes = {f"{section}.{key}" for section, keys in _SIZES.items() for key in keys} & words.keys()
    preset = [words["experiment"]] if "experiment" in words else []
    if preset and "task" in words:
        return False
    return not sizes or not sizes & tag_parts(job.raw, CONF, *preset).keys()


def _steps_left(job: JobConfig) -> int | None:
    total = job.typed.train.max_steps or job.typed.cost.steps_of_epochs
    try:
        done = RunFolder(job.folder).status().get("step", 0)
    except RunError:
        done = 0
    return None if total is None else max(0, total - done)


def _table(plans: Sequence[PlannedGroup], experiments: Mapping[int, str] | None) -> Table:
    """A row for the groups with the same step of a task and model, or of an experiment (by the groups' ids)."""
    names = [Column(name, justify="right") for name in ("groups", "runs", "steps left", "ms a step of a run", "hours")]
    table = Table("experiment" if experiments else "task and model", *names, "measured on", box=SIMPLE_HEAD)
    rows: dict[tuple[str, PlannedStep | None], list[PlannedGroup]] = defaultdict(list)
    for plan in plans:
        job = plan.left[0]
        name = experiments[id(plan)] if experiments else f"{job.label} {job.typed.model.name}"
        rows[name, plan.step].append(plan)
    for (name, step), alike in rows.items():
        steps, runs = [plan.steps for plan in alike], sum(len(plan.left) for plan in alike)
        left = "-" if None in steps else f"{sum(number or 0 for number in steps):,}"
        ms, hours, on = "-", "-", ""
        if step is not None:
            ms, on = span((seconds * 1000 for seconds in step.seconds), step.is_guess), _source(step)
            hours = span(total, step.is_guess) if (total := _total(alike)) else "-"
        table.add_row(name, f"{len(alike):,}", f"{runs:,}", left, ms, hours, on)
    return table


def _source(step: PlannedStep) -> str:
    if step.is_guess:
        return f"not measured: a guess for {step.hardware}"
    return f"{step.hardware} ({'; '.join(step.remarks)})" if step.remarks else step.hardware


def _total(plans: Sequence[PlannedGroup]) -> tuple[float, float] | None:
    """Least and most hours of groups together; None if those of one are not known."""
    hours = [plan.hours for plan in plans if plan.hours is not None]
    return None if len(hours) < len(plans) else (sum(least for least, _ in hours), sum(most for _, most in hours))


def span(ends: Iterable[float], is_guess: bool) -> str:
    """`14 to 18`, or one number for two equal ones: with three digits, or two of a guess."""
    digits = 2 if is_guess else 3
    shown = [f"{end:.2f}" if end < 0.1 else f"{float(f'{end:.{digits}g}'):,.10g}" for end in ends]
    return " to ".join(dict.fromkeys(shown))


def _hours(plans: Sequence[PlannedGroup]) -> list[str]:
    """Hours by hardware, measured and guessed, and what has none."""
    parts: dict[tuple[str, bool, bool], list[PlannedGroup]] = defaultdict(list)
    for plan in plans:
        if plan.hours is not None and plan.step is not None:
            parts[plan.step.hardware, plan.step.is_gpu, plan.step.is_guess].append(plan)
    lines = []
    for (hardware, is_gpu, is_guess), found in parts.items():
        how = "guessed (cost.ms_a_step), not measured" if is_guess else "by measured steps"
        total, what = span(_total(found) or (), is_guess), "GPU-hours" if is_gpu else "hours"
        lines.append(f"{what}: {total} on {hardware}, {how} (no validations or tests)")
    if any(is_guess for _, _, is_guess in parts):
        lines.append(f"a run of each model with train.max_steps={SHORT_RUN} measures the steps that were guessed")
    if unknown := [plan for plan in plans if plan.step is None]:
        names = dict.fromkeys(plan.left[0].typed.model.name for plan in unknown)
        lines.append(
            f"no hours for {listed(names, most=8)}: no run of this task and these sizes was measured; a run of "
            f"each with train.max_steps={SHORT_RUN} measures them"
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
