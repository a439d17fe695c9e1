"""`python train.py ... --plan`: jobs and hours of a sweep, without starting or submitting anything."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Column, Table

from attnlab.analysis.planned_verdicts import planned_verdicts
from attnlab.config.job_config import JobConfig
from attnlab.config.message_text import counted, listed, table_console
from attnlab.config.run_identity import identity, tag_parts
from attnlab.config.shipped_files import CONF
from attnlab.config.sweep import Command
from attnlab.launch.launcher import make_launcher
from attnlab.launch.measured_steps import StepTime, measured_step
from attnlab.launch.run_job import JobTask, job_tasks
from attnlab.run.run_folder import RunError, RunFolder, is_finished

SHORT_RUN = 300
"""steps of a run that measures a step"""
_SIZES = {
    "backbone": ("d_model", "n_heads", "n_layers", "n_decoder_layers", "d_feed_forward"),
    "task": ("length", "max_length", "vocabulary_size", "tokens"),
    "train": ("batch_size", "batch_tokens", "accumulate", "max_tokens", "precision"),
    "trainer": ("devices", "nodes"),
}
"""keys for which a guess holds at the values of its task or experiment only"""
_EPOCHS = ("train.max_epochs", "train.batch_size", "train.batch_tokens", "train.accumulate")
"""keys for which `cost.steps_of_epochs` holds at the values of its task or experiment only"""


@dataclass(frozen=True)
class PlannedRun:
    """A run that is not finished, and of no experiment planned before.

    steps: training steps that are left; None where the number is known after the data is read only.
    step:  the time of a step; None if nothing is known of it.
    """

    task: JobTask
    steps: int | None
    step: StepTime | None

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
    runs = [plan for experiment in plans.values() for plan in experiment]
    done = len(seen) - len(runs)
    (command, *others) = commands.values()
    how = f", hydra/launcher={command.launcher['_name_']}" if command.multirun and not others else ""
    print(f"{counted(len(seen), 'run')}, {done:,} finished; {len(runs):,} to train{how}")
    if runs:
        names = None if not others else {id(plan): name for name in plans for plan in plans[name]}
        table_console().print(_table(runs, names))
        verdicts = {name: planned_verdicts(one.jobs[0].report, _begun(one)) for name, one in commands.items()}
        shown = [f"{name}: {line}" if others else line for name, lines in verdicts.items() for line in lines]
        print("\n".join([*_hours(runs), *shown]))
    if runs and command.multirun and not others:
        for line in make_launcher(command.launcher).plan([plan.task for plan in runs]):
            print(line)
    if others and (without := [name for name, left in plans.items() if not left]):
        print(f"nothing left of {listed(without, most=8)}: finished, or of an experiment named before")
    print("nothing was started: this is a plan")
    return 0


def _planned(command: Command, seen: set[str]) -> list[PlannedRun]:
    """The runs of a command that are not finished, without the ones in `seen`, to which its own are added."""
    runs = []
    for task in job_tasks(command):
        setting = _setting(task.job)
        if setting not in seen and not is_finished(task.job):
            runs.append(PlannedRun(task, _steps_left(task.job, command), _step(task.job, command)))
        seen.add(setting)
    return runs


def _begun(command: Command) -> list[Mapping[str, Any]]:
    """The analyses that the runs of a command were begun under, where their folders can be read."""
    begun = []
    for job in command.jobs:
        with suppress(RunError):
            begun += RunFolder(job.folder).status().get("declared", [])
    return begun


def _setting(job: JobConfig) -> str:
    """Settings and seed of a job: one run has other folder names in other experiments."""
    return str(identity(job.raw))


def _step(job: JobConfig, command: Command) -> StepTime | None:
    """The measured step of a job, else the guess of its configuration; None without one."""
    step, guess = measured_step(job), job.typed.cost
    if step is None and guess.ms_a_step and _guess_holds(job, command):
        times = min(guess.ms_a_step) / 1000, max(guess.ms_a_step) / 1000
        return StepTime(times, f"one {guess.hardware}", "GPU" in guess.hardware, is_guess=True)
    return step


def _guess_holds(job: JobConfig, command: Command) -> bool:
    """Whether the command line leaves a job the hardware and the sizes that the guess of its task or experiment is for,
    or has a guess itself."""
    words = _set_keys(command)
    if "cost.ms_a_step" in words:
        return True
    if "debug" in words or job.typed.trainer.device == ("cpu" if "GPU" in job.typed.cost.hardware else "cuda"):
        return False
    sizes = {f"{section}.{key}" for section, keys in _SIZES.items() for key in keys} & words.keys()
    preset = [words["experiment"]] if "experiment" in words else []
    if preset and "task" in words:
        return False
    return not sizes or not sizes & tag_parts(job.raw, CONF, *preset).keys()


def steps_of_run(job: JobConfig, set_keys: Collection[str] = ()) -> int | None:
    """Steps of a run; None where only the data says how many `train.max_epochs` are.

    Args:
        set_keys: keys that the command line sets.
    """
    train, examples = job.typed.train, job.raw["task"].get("train_examples")
    if train.max_steps is not None:
        return train.max_steps
    if examples and train.max_epochs and train.batch_tokens is None:
        return max(train.max_epochs * (examples // train.batch_size) // train.accumulate, 1)
    return None if set(_EPOCHS) & set(set_keys) else job.typed.cost.steps_of_epochs


def _steps_left(job: JobConfig, command: Command) -> int | None:
    total = steps_of_run(job, _set_keys(command))
    try:
        done = RunFolder(job.folder).status().get("step", 0)
    except RunError:
        done = 0
    return None if total is None else max(0, total - done)


def _set_keys(command: Command) -> dict[str, str]:
    """The words of the command line that set something, by their keys."""
    return {word.partition("=")[0].lstrip("+"): word for word in command.run_words}


def _table(plans: Sequence[PlannedRun], experiments: Mapping[int, str] | None) -> Table:
    """A row for the runs with the same step of a task and model, or of an experiment (by the ids of the plans)."""
    names = [Column(name, justify="right") for name in ("runs", "steps left", "ms a step", "hours")]
    table = Table("experiment" if experiments else "task and model", *names, "measured on", box=SIMPLE_HEAD)
    rows: dict[tuple[str, StepTime | None], list[PlannedRun]] = defaultdict(list)
    for plan in plans:
        job = plan.task.job
        name = experiments[id(plan)] if experiments else f"{job.label} {job.typed.model.name}"
        rows[name, plan.step].append(plan)
    for (name, step), group in rows.items():
        steps = [plan.steps for plan in group]
        left = "-" if None in steps else f"{sum(number or 0 for number in steps):,}"
        ms, hours, on = "-", "-", ""
        if step is not None:
            ms, on = span((seconds * 1000 for seconds in step.seconds), step.is_guess), _source(step)
            hours = span(total, step.is_guess) if (total := _total(group)) else "-"
        table.add_row(name, f"{len(group):,}", left, ms, hours, on)
    return table


def _source(step: StepTime) -> str:
    if step.is_guess:
        return f"not measured: a guess for {step.hardware}"
    return f"{step.hardware} ({'; '.join(step.remarks)})" if step.remarks else step.hardware


def _total(plans: Sequence[PlannedRun]) -> tuple[float, float] | None:
    """Least and most hours of runs together; None if the hours of a run are not known."""
    hours = [plan.hours for plan in plans if plan.hours is not None]
    return None if len(hours) < len(plans) else (sum(least for least, _ in hours), sum(most for _, most in hours))


def span(ends: Iterable[float], is_guess: bool) -> str:
    """`14 to 18`, or one number for two equal ones: with three digits, or two of a guess."""
    digits = 2 if is_guess else 3
    shown = [f"{end:.2f}" if end < 0.1 else f"{float(f'{end:.{digits}g}'):,.10g}" for end in ends]
    return " to ".join(dict.fromkeys(shown))


def _hours(plans: Sequence[PlannedRun]) -> list[str]:
    """Hours by hardware, measured and guessed, and what has none."""
    parts: dict[tuple[str, bool, bool], list[PlannedRun]] = defaultdict(list)
    for plan in plans:
        if plan.hours is not None and plan.step is not None:
            parts[plan.step.hardware, plan.step.is_gpu, plan.step.is_guess].append(plan)
    lines = []
    for (hardware, is_gpu, is_guess), runs_of_hardware in parts.items():
        how = "guessed (cost.ms_a_step), not measured" if is_guess else "by measured steps"
        total, unit = span(_total(runs_of_hardware) or (), is_guess), "GPU-hours" if is_gpu else "hours"
        lines.append(f"{unit}: {total} on {hardware}, {how} (no validations or tests)")
    if any(is_guess for _, _, is_guess in parts):
        lines.append(f"a run of each model with train.max_steps={SHORT_RUN} measures the steps that were guessed")
    if unknown := [plan for plan in plans if plan.step is None]:
        names = dict.fromkeys(plan.task.job.typed.model.name for plan in unknown)
        lines.append(
            f"no hours for {listed(names, most=8)}: no run of this task and these sizes was measured; a run of "
            f"each with train.max_steps={SHORT_RUN} measures them"
        )
    if any(plan.steps is None for plan in plans):
        lines.append("runs with train.max_epochs have no hours: their steps are known after the data is read")
    return lines
