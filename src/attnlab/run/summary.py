"""What a user reads at the end: a table of one run, or of all jobs of a sweep. Imports no torch."""

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from attnlab.config.naming import run_folder
from attnlab.run.record import RunError, RunFolder


def headline(metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics of whole subsets and groups, without those of single lengths."""
    return {name: value for name, value in metrics.items() if "/length_" not in name}


def percent(name: str, value: float) -> str:
    """Accuracies in percent, anything else as it is."""
    return f"{100 * value:.2f} %" if "accuracy" in name else f"{value:.4g}"


def print_run(raw: Mapping[str, Any], result: Mapping[str, Any], shown: bool) -> None:
    """Metrics, seconds, folder, and what to try next."""
    folder, console = run_folder(raw), Console()
    task, model = raw["task"]["name"], raw["model"]["name"]
    table = Table(box=SIMPLE_HEAD)
    table.add_column(f"{task} / {model} / seed {raw['seed']}")
    table.add_column("result", justify="right")
    for name, value in headline(result["metrics"]).items():
        table.add_row(name, percent(name, value))
    table.add_row("tested weights", f"{result['selection']['rule']}, step {result['selection']['step']}")
    table.add_row("seconds of training", f"{result['seconds']:.0f}  ({result['steps_per_second']:.1f} steps/s)")
    console.print(table)
    console.print(f"run folder: {folder}\n", highlight=False, soft_wrap=True)
    if shown:
        console.print("This run was finished before; its result is shown. Move its folder away to train it again.\n")
    console.print("Next, for example:", highlight=False)
    lines = [f"python evaluate.py run={folder}", _comparison(model)]
    if raw["logger"]["name"] != "csv":
        lines.append(f"wandb leet {Path(raw['paths']['runs']) / 'wandb'}")
    for line in lines:
        console.print(f"  {line}", highlight=False, soft_wrap=True)


def _comparison(model: str) -> str:
    """This command again, as a sweep that compares the model with baselines over seeds."""
    own = [argument for argument in sys.argv[1:] if not argument.startswith(("model=", "seed=", "-"))]
    models = ",".join(dict.fromkeys(("vanilla", "linear", model)))
    return f"python train.py -m {shlex.join([*own, f'model={models}', 'seed=0,1,2'])}"


def print_sweep(jobs: Sequence[Mapping[str, Any]]) -> int:
    """A row for every job of a sweep, from what its run folder says.

    Returns:
        exit code: 0 when all are finished.
    """
    by_folder = {run_folder(job): job for job in jobs}
    table = Table(title=f"{len(by_folder)} runs in {jobs[0]['paths']['runs']}", box=SIMPLE_HEAD, title_justify="left")
    for column in ("run", "state", "tested, or reason"):
        table.add_column(column, overflow="fold")
    finished = 0
    for folder, job in by_folder.items():
        state, text = _outcome(folder, job)
        finished += state == "finished"
        table.add_row(str(folder.relative_to(job["paths"]["runs"])), state, text)
    Console().print(table)
    missing = len(by_folder) - finished
    if missing:
        print(f"{finished} finished, {missing} not; repeat the command to run only what is missing")
    return 1 if missing else 0


def _outcome(folder: Path, job: Mapping[str, Any]) -> tuple[str, str]:
    """State of a job, and its main result or the reason why it has none; from files, whatever launcher ran it."""
    run = RunFolder(folder)
    try:
        if not run.status_file.exists():
            return "not started", ""
        run.require_config(job)
        status, result = run.status(), run.result()
    except (OSError, RunError) as error:
        return "refused", str(error)
    if status["state"] != "finished" or result is None:
        return status["state"], status["reason"]
    metrics = headline(result["metrics"])
    main = {name: value for name, value in metrics.items() if re.fullmatch(r"test/.*accuracy", name)}
    shown = {name: value for name, value in main.items() if not name.endswith("_oracle_end")}
    return "finished", "  ".join(f"{_part(name)} {percent(name, value)}" for name, value in shown.items())


def _part(name: str) -> str:
    """`test/ood/sequence_accuracy` as `ood`, `test/accuracy` as `all`."""
    return name.removeprefix("test/").rpartition("/")[0] or "all"
