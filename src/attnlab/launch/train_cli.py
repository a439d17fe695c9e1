"""Command line of `python train.py`: checks it, then runs the job or the sweep.

Nothing here imports torch, so that help and config errors are printed at once.
"""

import fnmatch
import io
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout

import yaml

from attnlab.config.command_line import wandb_agent
from attnlab.config.command_line.command_frame import command
from attnlab.config.command_line.train_help import help_text
from attnlab.config.command_line.words import PLAN, without_dashes
from attnlab.config.compose import hydra_settings
from attnlab.config.conf_files import group_choices
from attnlab.config.dotted_keys import MISSING, flatten, value_at
from attnlab.config.message_text import hint
from attnlab.config.nearest_word import nearest, nearest_key
from attnlab.config.problem import ConfigError, Problem
from attnlab.config.sweep import Command, check_command
from attnlab.config.validation.search import CHOSEN
from attnlab.launch.launcher import make_launcher
from attnlab.learn.declaration_checks import declaration_problems
from attnlab.learn.devices.rank_layout import started_layout
from attnlab.run.warm_start import from_run_problems


@command(help_text, needs_words=False)
def train_main(argv: Sequence[str]) -> int:
    """Run the command line; returns the exit code."""
    argv = [without_dashes(word) for word in argv]
    if PLAN in argv:
        return _plan(argv)
    checked = check_command(argv)
    if checked.multirun and wandb_agent.agent_run_id():
        raise ConfigError([Problem("", wandb_agent.ONE_RUN)])
    if shown := checked.flags.get("--cfg"):
        print(_shown_text(checked, shown, checked.flags.get("--package", "")), end="")
        return 0
    if unfit := _unfit(checked):
        raise ConfigError(unfit)
    _print_notes(checked)
    place = started_layout(os.environ)
    # Rank 0 prints for all processes; a run itself prints errors that only another rank knows (`run_job`).
    with redirect_stdout(io.StringIO()) if place is not None and place.rank else nullcontext():
        return _run(checked, argv)


def _unfit(checked: Command, needs_runs: bool = True) -> list[Problem]:
    """Problems of jobs that the check of the configuration alone does not find.

    Args:
        needs_runs: the runs of `from_run` must be there.
    """
    problems = declaration_problems(checked.jobs[0].report) + (from_run_problems(checked.jobs) if needs_runs else [])
    place = started_layout(os.environ)
    if checked.search is not None and place is not None and place.world > 1:
        text = f": {place.starter} started {place.world} processes, and each would choose jobs of its own"
        advice = "; start one, which starts the others (trainer.devices)"
        problems.append(Problem(CHOSEN, text + advice))
    return problems + make_launcher(checked.launcher).problems(checked.jobs) if checked.multirun else problems


def _shown_text(command: Command, shown: str, package: str) -> str:
    """What `--cfg` shows, as yaml: the complete configuration of the job, Hydra's settings, or all.

    Args:
        shown: job, hydra or all; Hydra itself would print a job without defaults.
        package: dotted key of the part to show, as for `--package` of Hydra; empty = all.

    Raises:
        ConfigError: no such part.
    """
    job = command.jobs[0]
    config = job.raw | ({} if job.report is None else {"report": job.report})
    if shown != "job":
        settings = hydra_settings(command.hydra_argv[1:])
        config = {"hydra": settings} if shown == "hydra" else {"hydra": settings, **config}
    part = config if package in ("", "_global_") else value_at(config, package)
    if part is MISSING:
        near = hint(nearest_key(package, flatten(config)) if "." in package else nearest(package, config))
        raise ConfigError([Problem(f"--package {package}", f": no such part{near}")])
    return yaml.safe_dump(part, sort_keys=False)


def planned_commands(argv: Sequence[str]) -> dict[str, Command]:
    """The checked command of each experiment that `--plan` names (`experiment=park2024/*`), which no sweep takes."""
    prefix, known = "experiment=", group_choices()["experiment"]
    at, word = next(((at, word) for at, word in enumerate(argv) if word.startswith(prefix)), (0, prefix))
    parts = filter(None, word.removeprefix(prefix).split(","))
    names = [name for part in parts for name in fnmatch.filter(known, part) or [part]]
    if not names:
        return {"": check_command(argv)}
    return {name: check_command([*argv[:at], prefix + name, *argv[at + 1 :]]) for name in names}


def _plan(argv: Sequence[str]) -> int:
    planned = planned_commands(argv)
    if any(command_line.search is not None for command_line in planned.values()):
        text = ": a search chooses its jobs by the results of earlier ones, so nothing is planned"
        raise ConfigError([Problem(PLAN, text)])
    # The runs that they begin with may be trained later.
    if unfit := [problem for command_line in planned.values() for problem in _unfit(command_line, needs_runs=False)]:
        raise ConfigError(unfit)
    for command_line in planned.values():
        _print_notes(command_line)
    from attnlab.launch.sweep_plan import print_plan

    return print_plan(planned)


def _run(command: Command, argv: Sequence[str]) -> int:
    from attnlab.launch.run_jobs import run_jobs

    if command.search is not None:
        from attnlab.launch.search_jobs import run_search

        return run_search(command, command.search, argv)
    return run_jobs(command)


def _print_notes(command: Command) -> None:
    """Print what of the command, and of the job of Slurm that it runs in, has no effect."""
    place, name, tasks = started_layout(os.environ), command.launcher["_name_"], os.environ.get("SLURM_NTASKS", "1")
    if command.search is not None or (place is not None and place.rank):
        return
    if place is None and tasks not in ("1", ""):
        print(
            f"note: this job of Slurm has {tasks} tasks, and without srun this command is one of them; "
            f"srun python train.py ... trainer.devices={tasks} uses all for one run",
            file=sys.stderr,
        )
    if not command.multirun and name not in ("auto", "basic"):
        print(f"note: the launcher {name} has nothing to do: this is one run, not a sweep (-m)", file=sys.stderr)
