"""Tables printed at the end: results of one run, or of all jobs of a sweep. Imports no torch."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table

from attnlab.config.classes.recorded_code import other_code
from attnlab.config.job_config import JobConfig
from attnlab.config.message_text import command_line, short_path, table_console
from attnlab.learn.metric_units import headlines, length_lines, shortcut_lines, text, whole
from attnlab.run.provenance import commit_text
from attnlab.run.read_run_files import debug_note
from attnlab.run.run_folder import RunError, RunFolder
from attnlab.run.run_lock import is_alive

MOST_SETTINGS = 12
"""settings of a sweep whose folders are listed"""


def print_run(job: JobConfig, result: Mapping[str, Any], shown: bool) -> None:
    """Print metrics, seconds and folder of a run, and commands to try next."""
    raw, task, model = job.raw, job.raw["task"]["name"], job.raw["model"]["name"]
    name_column = Column(f"{task} / {model} / seed {raw['seed']}", overflow="fold")
    table = Table(name_column, Column("result", justify="right"), box=SIMPLE_HEAD)
    for name, value in whole(result["metrics"]).items():
        table.add_row(name, text(name, value))
    if selection := result.get("selection"):
        table.add_row("tested weights", f"{selection.get('rule')}, step {selection.get('step', 0):,}")
    if {"seconds", "steps_per_second"} <= result.keys():
        taken, speed = (text(name, result[name]) for name in ("seconds", "steps_per_second"))
        table.add_row("training time", f"{taken}  ({speed})")
    about, folder = result.get("data", {}).get("about"), short_path(job.folder)
    lines = length_lines(result["metrics"])
    lines += shortcut_lines(result.get("shortcuts", {}), headlines(result["metrics"]))
    lines += [debug_note(result), f"computed on: {about}" if about else "", f"run folder: {folder}\n"]
    if shown:
        by = f" by commit {commit_text(git)}" if (git := result.get("git", {})).get("commit") else ""
        lines.append(f"This run was finished before{by}; its result is shown.")
        if changed := other_code(result, raw):
            lines.append(f"note: it was made with other code of {changed} than is here now")
        lines.append("To train it again, as after a change of your code, move its folder away.\n")
    lines += ["Next, for example:", f"  {command_line('python evaluate.py', f'run={folder}')}"]
    if raw["logger"]["name"] != "csv":
        lines.append(f"  {command_line('wandb leet', short_path(Path(raw['paths']['runs']) / 'wandb'))}")
    # names of folders hold brackets, which rich would take for markup
    console = Console(markup=False, highlight=False)
    console.print(table)
    console.print(*filter(None, lines), sep="\n", soft_wrap=True)


def print_sweep(
    jobs: Sequence[JobConfig], names: Sequence[str], values: Sequence[str] | None = None, words: Sequence[str] = ()
) -> int:
    """Print a row for every job of a sweep, from the files of its run folder, the folders, and how to make a report.

    Args:
        names: of the jobs (`config.sweep.Command`).
        values: shown instead of test metrics, as what a search selects by.
        words: of the command line, which report.py takes as well; none = no report of these jobs.

    Returns:
        exit code: 0 if all are finished.
    """
    by_folder: dict[Path, tuple[str, Mapping[str, Any], str | None]] = {}
    shown: Sequence[str | None] = values or [None] * len(jobs)
    for job, name, value in zip(jobs, names, shown, strict=True):
        by_folder.setdefault(job.folder, (name, job.raw, value))
    runs = "1 run" if len(by_folder) == 1 else f"{len(by_folder):,} runs"
    title = f"{runs} in {short_path(jobs[0].typed.paths.runs)}"
    columns = [Column(name, overflow="fold") for name in ("run", "state", "tested" if values is None else "validated")]
    table = Table(*columns, title=title, box=SIMPLE_HEAD, title_justify="left")
    reasons = []
    for folder, (name, raw, value) in by_folder.items():
        state, outcome = _outcome(folder, raw)
        table.add_row(name, state, (outcome if value is None else value) if state == "finished" else "")
        if state != "finished":
            reasons.append(f"{name}: {state}{outcome and ': '}{outcome}")
    table_console().print(table)
    settings = list(dict.fromkeys(short_path(folder.parent) for folder in by_folder))
    print("run folders, with a folder for each seed:", *map("  {}".format, settings[:MOST_SETTINGS]), sep="\n")
    if len(settings) > MOST_SETTINGS:
        print(f"  ... ({len(settings):,} in all)")
    if words and len(reasons) < len(by_folder):
        print(f"report: {command_line('python report.py', *words)}")
    if reasons:
        print("\n".join(reasons))
        done = len(by_folder) - len(reasons)
        print(f"{done} finished, {len(reasons)} not; repeat the command to run only what is missing")
    return 1 if reasons else 0


def _outcome(folder: Path, job: Mapping[str, Any]) -> tuple[str, str]:
    """State of a job, and its main result or the reason why it has no result, from the files of its run folder."""
    run = RunFolder(folder)
    try:
        if not run.status_file.exists():
            return "not started", ""
        run.require_config(job)
        status, result = run.status(), run.result()
    except (OSError, RunError) as error:
        return "refused", str(error)
    if status["state"] == "running" and not is_alive(status, folder):
        return "interrupted", f"its process is gone; step {status.get('step', 0):,}"
    if status["state"] != "finished" or result is None:
        return status["state"], status.get("reason", "")
    metrics, names = result["metrics"], headlines(result["metrics"])
    first = names[0].rpartition("/")[2] if names else ""
    accuracy = first.endswith("accuracy")
    # test/ood/sequence_accuracy is shown as ood, test/accuracy as accuracy; another metric is named once, in front
    parts = {name: name.removeprefix("test/").rpartition("/")[0] or (first if accuracy else "") for name in names}
    shown = [f"{part} {text(name, metrics[name])}".lstrip() for name, part in parts.items()]
    label = ("debug: " if "debug" in result else "") + ("" if accuracy else f"{first} ")
    changed = other_code(result, job)
    return "finished", label + "  ".join(shown) + (f"  (made with other code of {changed})" if changed else "")
