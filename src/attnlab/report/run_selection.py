"""Which runs a report is of, and its block: an experiment's cells, or whatever a glob finds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attnlab.config.check import ConfigError
from attnlab.config.compose import compose_with_hydra
from attnlab.config.naming import NOT_IDENTITY
from attnlab.config.report_schema import Report
from attnlab.config.suggest import command_line, hint, listed, nearest_key, show
from attnlab.config.sweep import check_command
from attnlab.config.type_check import build
from attnlab.learn.metric_units import headlines, spread_of
from attnlab.report.build_table import value_of
from attnlab.report.read_runs import FoundRun, Unreadable, look, run_folders
from attnlab.report.table_types import TableError


@dataclass(frozen=True)
class RunSelection:
    """What a report is made of.

    name:    of the experiment, or the glob; None of a block means one made from what varies.
    skipped: folders that are no runs, and why.
    command: trains what is missing; empty where nobody can tell.
    words:   that narrow an experiment, without those on where things lie and what they run on.
    left_out: a sentence on runs that are there and no part of it.
    """

    name: str
    report: Report | None
    runs: Sequence[FoundRun]
    skipped: Sequence[str] = ()
    command: str = ""
    words: Sequence[str] = ()
    left_out: str = ""

    @property
    def title(self) -> str:
        """The name, of a glob its last two parts: where runs lie is no part of a report."""
        return self.name if self.command else "/".join(Path(self.name).parts[-2:])


def select_experiment(name: str, words: Sequence[str]) -> RunSelection:
    """The cells of an experiment, narrowed by more words (`model=linear seed=0,1`).

    Raises:
        ConfigError: no such experiment, or words that do not fit.
    """
    line = [f"experiment={name}", *words]
    try:
        jobs = check_command(line).jobs
    except ConfigError as error:
        raise ConfigError(error.problems, "report.py") from None
    block = jobs[0].report
    runs = {job.folder: look(job.folder, job.raw) for job in jobs}
    report = None if block is None else build(Report, block)
    # where things lie and what they run on changes nothing; which seeds there are is shown, and debug= shrinks all
    keys = {word: word.split("=")[0].lstrip("+") for word in words}
    own = [word for word, key in keys.items() if key in ("seed", "debug") or key.split(".")[0] not in NOT_IDENTITY]
    # what is swept narrows the experiment, anything else changes it
    swept = {*compose_with_hydra([f"experiment={name}"])[1]["params"], "seed"} if own else set()
    changed = [word for word in own if keys[word] not in swept]
    if changed and report is not None:
        # other settings than the preset's: what was published at its settings is no measure of them
        report = replace(report, published=None, protocol=f"not at the preset's settings: {' '.join(changed)}")
    command = command_line("python train.py", *line)
    return RunSelection(name, report, list(runs.values()), command=command, words=own)


def select_glob(pattern: str, with_debug: bool = False) -> RunSelection:
    """Every run folder that a glob names or that lies below what it names, of debug=... where asked for."""
    runs, skipped = [], []
    for folder in run_folders(pattern):
        try:
            runs.append(look(folder))
        except Unreadable as error:
            skipped.append(f"{folder}: {error.short}")
    kept = runs if with_debug else [run for run in runs if run.config.get("debug") is None]
    return RunSelection(pattern, None, kept, skipped, left_out=_left_out([run for run in runs if run not in kept]))


def _left_out(runs: Sequence[FoundRun]) -> str:
    if not runs:
        return ""
    names = listed(sorted({f"debug={run.config['debug']}" for run in runs}))
    return f"{len(runs)} run{'' if len(runs) == 1 else 's'} of {names} left out; include=debug adds them"


def plain_report(selection: RunSelection, rows: Sequence[str] = (), columns: Sequence[str] = ()) -> Report:
    """The experiment's block with rows and columns replaced where they are given; else what varies and is tested.

    Raises:
        TableError: a key that no run has.
    """
    for key in rows:
        if all(value_of(key, run) is None for run in selection.runs):
            keys = sorted({"model", "task", *(name for run in selection.runs for name in run.settings)})
            raise TableError(f"rows={key}: no run has such a key{hint(nearest_key(key, keys))}")
    if selection.report is not None and not rows and not columns:
        return selection.report
    block = selection.report
    metrics = list(columns) or _main_metrics(selection.runs)
    keys = list(rows) or (block.rows if block else varying(selection.runs))
    shown = block.columns if block is not None and not columns else _columns(selection.runs, metrics)
    names = block.row_names if block is not None and not rows else _names(selection.runs, keys)
    return Report(
        title=block.title if block else selection.title,
        published=block.published if block and not rows and not columns else None,
        protocol=block.protocol if block else None,
        rows=keys,
        row_names=names,
        columns=shown,
        best_over=block.best_over if block else [],
    )


def _main_metrics(runs: Sequence[FoundRun]) -> list[str]:
    """The main test metrics of all runs; where no run has one, the first metric there is."""
    having = [run.result.get("metrics", {}) for run in runs]
    found = list(dict.fromkeys(name for metrics in having for name in headlines(metrics)))
    return found or sorted(name for metrics in having for name in metrics)[:1]


def _columns(runs: Sequence[FoundRun], metrics: Sequence[str]) -> dict[str, Any]:
    """A column for every metric, of the tasks that have it."""
    tasks = {value_of("task", run) for run in runs}
    columns: dict[str, Any] = {}
    for metric in metrics:
        having = {value_of("task", run) for run in runs if run.value(metric) is not None}
        name = _short(metric, metrics)
        columns[name] = {"metric": metric, "where": {"task": sorted(having)}} if having and having < tasks else metric
    return columns


def _names(runs: Sequence[FoundRun], keys: Sequence[str]) -> dict[str, str]:
    """Rows by what tells them from others of the same task and model: `scan-simple, linear, lr=0.001`."""
    names = {}
    for members in _by_task_and_model(runs).values():
        varied = {key for key in keys if len({show(value_of(key, run)) for run in members}) > 1}
        for run in members:
            given = {key: show(value_of(key, run)) for key in keys}
            plain = [value for key, value in given.items() if key in ("task", "model")]
            told = [f"{key.rpartition('.')[2]}={value}" for key, value in given.items() if key in varied]
            names[", ".join(given.values())] = ", ".join([*plain, *told]) or ", ".join(given.values())
    return names


def _by_task_and_model(runs: Sequence[FoundRun]) -> dict[tuple[str, str], list[FoundRun]]:
    groups: dict[tuple[str, str], list[FoundRun]] = {}
    for run in runs:
        groups.setdefault((value_of("task", run), value_of("model", run)), []).append(run)
    return groups


def _short(name: str, among: Sequence[str]) -> str:
    """`test/ood/sequence_accuracy` as `ood`, where that is enough to tell it from the others."""
    if spread_of(name):
        return name
    part = name.partition("/")[2].rpartition("/")[0] or name.rpartition("/")[2]
    alike = [other for other in among if other.partition("/")[2].rpartition("/")[0] == part]
    return part if len(alike) <= 1 else name


def varying(runs: Sequence[FoundRun]) -> list[str]:
    """The keys that tell runs apart but for their seeds: task, model, and what varies within one task and model."""
    groups = _by_task_and_model(runs)
    found = [key for place, key in enumerate(("task", "model")) if len({pair[place] for pair in groups}) > 1]
    within: dict[str, None] = {}
    for members in groups.values():
        flat = [run.settings for run in members]
        keys = dict.fromkeys(key for one in flat for key in one)
        within |= dict.fromkeys(key for key in keys if any(one.get(key) != flat[0].get(key) for one in flat))
    keys = [key for key in within if key not in ("task.name", "model.name")]
    return [*found, *keys] or ["model"]


def require_runs(selection: RunSelection) -> None:
    """
    Raises:
        TableError: there is nothing to make a table of.
    """
    if any(run.state == "finished" for run in selection.runs):
        return
    left_out = f"; {selection.left_out}" if selection.left_out else ""
    if not selection.runs:
        what = left_out + (f"; skipped: {selection.skipped[0]}" if selection.skipped else "")
        if left_out:
            raise TableError(f"runs={selection.name}: no run there that was trained in earnest{what}")
        raise TableError(f"runs={selection.name}: no run folder there (one holds config.yaml){what}")
    states: dict[str, int] = {}
    for run in selection.runs:
        states[run.state] = states.get(run.state, 0) + 1
    counted = ", ".join(f"{count} {state}" for state, count in states.items())
    example = next((f" ({run.folder}: {run.reason})" for run in selection.runs if run.reason), "")
    then = f"; {selection.command}" if selection.command else ""
    raise TableError(
        f"{selection.name}: no finished run among {len(selection.runs)} ({counted}){example}{left_out}{then}"
    )
