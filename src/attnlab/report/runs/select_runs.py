"""Selects the runs of a report: the cells of an experiment, or the run folders of a glob; counts all spent runs."""

import glob
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attnlab.config.command_line.words import with_data_set_names
from attnlab.config.conf_files import NAMED, aliases
from attnlab.config.dotted_keys import flatten
from attnlab.config.fill_defaults import completed
from attnlab.config.message_text import command_line, counted, hint, listed, show
from attnlab.config.nearest_word import nearest, nearest_key, nearest_named
from attnlab.config.problem import ConfigError, Problem
from attnlab.config.report_block import DATA_SEED, Report
from attnlab.config.run_identity import NOT_IDENTITY, task_and_split
from attnlab.config.sweep import check_command
from attnlab.config.validation.report_names import setting
from attnlab.config.validation.search import CHOSEN
from attnlab.config.validation.type_check import build
from attnlab.learn.metric_units import headlines
from attnlab.report.analysis_record import SpentRuns
from attnlab.report.runs.read_runs import (
    NOT_BEGUN,
    ReportRun,
    Unreadable,
    grouped,
    look,
    meets,
    run_folders,
)
from attnlab.report.runs.run_archives import ArchivedRuns, without_copies
from attnlab.report.table_types import TableError
from attnlab.run.named_runs import folder_like


@dataclass(frozen=True)
class RunSelection:
    """The runs of a report.

    name:    of the experiment, or the words of the jobs, or the glob.
    report:  of the experiment; None = rows and columns come from the runs.
    root:    the folder that holds all of them.
    skipped: folders that are no runs, and why.
    command: trains the missing runs; empty for a glob.
    words:   that narrow it, without folders and hardware.
    rows:    the keys of the experiment's rows and those that the words sweep beside them; empty = as the report says.
    left_out: a sentence on runs that the glob finds and the report leaves out.
    """

    name: str
    report: Report | None
    runs: Sequence[ReportRun]
    root: Path
    skipped: Sequence[str] = ()
    command: str = ""
    words: Sequence[str] = ()
    rows: Sequence[str] = ()
    left_out: str = ""


def select_jobs(name: str | None, words: Sequence[str]) -> RunSelection:
    """The jobs of a command of train.py: the cells of an experiment, narrowed or changed by more words, or a sweep.

    Raises:
        ConfigError: no such experiment, or words that do not fit.
    """
    line = [*([f"experiment={name}"] if name else []), *words]
    try:
        command = check_command(["-m", *line])
    except ConfigError as error:
        raise ConfigError(error.problems, "report.py") from None
    if command.search is not None:
        text = ": a search chooses its jobs as it goes; name its run folders: runs=..."
        raise ConfigError([Problem(CHOSEN, text)], "report.py")
    jobs, block = command.jobs, command.jobs[0].report
    runs = {job.folder: look(job.folder, job.raw) for job in jobs}
    report = None if block is None else build(Report, block)
    # folders and hardware change no number; seeds are shown, and debug= changes every run
    keys = {word: word.split("=")[0].lstrip("+") for word in words}
    numeric = [word for word, key in keys.items() if key in ("seed", "debug") or _changes_numbers(key)]
    # swept keys narrow the experiment, other keys change it
    swept = {*command.settings["params"], "seed"}
    more: list[str] = []
    if report is not None:
        known = {*swept, DATA_SEED, *report.rows, *report.best_over}
        more = [key for key in command.swept if key not in known and _changes_numbers(key)]
        of_report = [word for word, key in keys.items() if key.split(".")[0] == "report"]
        report = _changed(report, [word for word in numeric if keys[word] not in swept], of_report)
    flags = ["-m"] if command.swept and command.settings["mode"] != "MULTIRUN" else []
    return RunSelection(
        name or " ".join(numeric) or "the plain run",
        report,
        list(runs.values()),
        Path(jobs[0].typed.paths.runs),
        command=command_line("python train.py", *flags, *line),
        words=numeric if name else (),
        rows=[*report.rows, *more] if report and more else (),
    )


def _changed(report: Report, settings: Sequence[str], of_report: Sequence[str]) -> Report:
    """The report of an experiment of which words change settings, or the report itself."""
    if settings:
        # published numbers hold for the preset's settings only
        changed = " ".join(settings)
        title, protocol = f"{report.title} ({changed})", f"not at the preset's settings: {changed}"
        report = replace(report, published=None, protocol=protocol, title=title)
    if of_report:
        remark = f"the report block is changed on the command line: {' '.join(of_report)}"
        report = replace(report, protocol="; ".join(filter(None, [report.protocol, remark])))
    return report


def _changes_numbers(key: str) -> bool:
    """Whether a key of a command is part of a run's identity."""
    return key.split(".", maxsplit=1)[0].split("/", maxsplit=1)[0] not in (*NOT_IDENTITY, "hydra")


def select_glob(
    pattern: str, words: Sequence[str] = (), with_debug: bool = False, unpacked: ArchivedRuns | None = None
) -> RunSelection:
    """The run folders at or below the paths that a glob matches; runs of debug=... only if asked for.

    Args:
        words: `key=value` or `key=value,value`: only runs with one of these values.
        unpacked: the runs of archives that the glob matches (`unpacked_archives`).

    Raises:
        ConfigError: a word that no run meets.
        DataError: a folder and an archive hold different copies of a run.
    """
    runs, skipped = [], []
    folders = run_folders(pattern)
    for folder in without_copies(folders, unpacked) if unpacked else folders:
        try:
            runs.append(look(folder))
        except Unreadable as error:
            skipped.append(f"{unpacked.name(folder) if unpacked else folder}: {error.short}")
    debugged = [] if with_debug else [run for run in runs if run.config.get("debug") is not None]
    names = listed(sorted({f"debug={run.config['debug']}" for run in debugged}))
    left_out = list(unpacked.earlier) if unpacked else []
    left_out += [f"{counted(len(debugged), 'run')} of {names} left out; include=debug adds them"] if debugged else []
    kept = [run for run in runs if with_debug or run.config.get("debug") is None]
    _fill_in_class_defaults(kept)
    for word in words if kept else ():
        kept = _narrowed(kept, word)
    # summaries of logged values are of the steps that all runs have logged
    every = math.lcm(*(run.logged_every for run in kept))
    for run in kept:
        run.log_every = every
    root = unpacked.root if unpacked else Path(pattern)
    while glob.has_magic(str(root)) and not root.exists():
        root = root.parent
    return RunSelection(pattern, None, kept, root, skipped, words=words, left_out="; ".join(left_out))


def _fill_in_class_defaults(runs: Sequence[ReportRun]) -> None:
    """Completes runs of the same classes that record different keys: some are older than an option of a class."""
    flat = [flatten(run.config) for run in runs]
    targets = (tuple((key, value) for key, value in each.items() if key.endswith("_target_")) for each in flat)
    recorded = grouped(zip(map(frozenset, flat), targets, strict=True))
    if any(len(set(keys)) > 1 for keys in recorded.values()):
        for run in runs:
            run.config = completed(run.config)


def _narrowed(runs: Sequence[ReportRun], word: str) -> list[ReportRun]:
    """The runs that have one of the values of `key=value,value`; a data set may also be named as `task.name`."""
    key, _, text = word.partition("=")
    if key == "task.name" and not {run.config["task"]["name"] for run in runs} & set(text.split(",")):
        (word,) = with_data_set_names([word], runs[0].config["task"])
        key = word.partition("=")[0]
    known = {show(setting(key, run.config)) for run in runs}
    if known == {show(None)} and not any(key in run.settings for run in runs):
        raise ConfigError([Problem(word, f": no run has such a key{_key_like(key, runs)}")], "report.py")
    # a value with commas, such as a list, is one value
    values = [text] if text in known else text.split(",")
    if unknown := [value for value in values if value not in known]:
        named = nearest_named(unknown[0], known, aliases(key)) if key in NAMED else nearest(unknown[0], sorted(known))
        claim = f": no run has {key}={unknown[0]}{hint(named)}; {listed(sorted(known), 8)}"
        raise ConfigError([Problem(word, claim)], "report.py")
    return [run for run in runs if meets(setting(key, run.config), values)]


def _key_like(key: str, runs: Sequence[ReportRun]) -> str:
    """A hint at the key of a run that is nearest to a wrong one."""
    return hint(nearest_key(key, sorted({"model", "task", "seed", *(name for run in runs for name in run.settings)})))


def plain_report(selection: RunSelection, rows: Sequence[str] = (), columns: Sequence[str] = ()) -> Report:
    """The experiment's report with other rows and columns, if given; for a glob, what varies and the main metrics.

    Raises:
        ConfigError: no run has the key of a row.
    """
    for key in rows:
        if all(setting(key, run.config) is None for run in selection.runs):
            text = f"={key}: no run has such a key{_key_like(key, selection.runs)}"
            raise ConfigError([Problem("rows", text)], "report.py")
    report, runs = selection.report, selection.runs
    if report is None:
        report = Report(title=_title(selection), columns={})
        # if no run has a main metric, the first one by name
        metrics = sorted({name for run in runs for name in run.result.get("metrics", {})})
        rows, columns = rows or varying(runs), columns or _main(runs) or metrics[:1]
    if rows:
        report = replace(report, rows=list(dict.fromkeys(rows)), row_names=_names(runs, rows))
    if columns:
        report = replace(report, columns=_columns(runs, columns), success=None)
    if rows or columns:
        # what belongs to the rows and columns of the experiment
        report = replace(report, published=None, average=None, hypotheses=[], highlight=None, figures=[])
    return report


def _title(selection: RunSelection) -> str:
    """The name of an experiment; else the end of a folder or the tasks of a glob, and the words that narrow it."""
    if selection.command:
        return selection.name
    tasks = dict.fromkeys(setting("task", run.config) for run in selection.runs)
    folder = Path(selection.name)
    name = "/".join(folder.parts[-2:]) if folder.is_dir() else f"runs of {listed(tasks, 4)}"
    return " ".join([name, *selection.words])


def _main(runs: Sequence[ReportRun]) -> list[str]:
    return list(dict.fromkeys(name for run in runs for name in headlines(run.result.get("metrics", {}))))


def _columns(runs: Sequence[ReportRun], metrics: Sequence[str]) -> dict[str, Any]:
    """A column for every metric, without the tasks whose finished runs lack it; `test/ood/sequence_accuracy` of a main
    metric is `ood`, if no other has that name."""
    tasks, main = {setting("task", run.config) for run in runs}, _main(runs)
    finished = grouped((run, setting("task", run.config)) for run in runs if run.state == "finished")
    parts = [metric.partition("/")[2].rpartition("/")[0] for metric in metrics]
    columns: dict[str, Any] = {}
    for metric, part in zip(metrics, parts, strict=True):
        lacking = {task for task, members in finished.items() if all(run.value(metric) is None for run in members)}
        having = tasks - lacking
        short = part or metric.rpartition("/")[2]
        name = short if metric in main and parts.count(short) <= 1 else metric
        columns[name] = {"metric": metric, "where": {"task": sorted(having)}} if having and lacking else metric
    return columns


def _names(runs: Sequence[ReportRun], keys: Sequence[str]) -> dict[str, str]:
    """Names of rows: task, model, and the keys that vary within them: `scan-simple, linear, lr=0.001`."""
    names = {}
    fixed = [key for key in ("task", "model") if key in keys]
    for members in grouped((run, tuple(setting(key, run.config) for key in fixed)) for run in runs).values():
        varied = {key for key in keys if len({show(setting(key, run.config)) for run in members}) > 1}
        for run in members:
            values = {key: show(setting(key, run.config)) for key in keys}
            plain = [value for key, value in values.items() if key in fixed]
            others = [f"{key.rpartition('.')[2]}={value}" for key, value in values.items() if key in varied]
            names[", ".join(values.values())] = ", ".join([*plain, *others]) or ", ".join(values.values())
    return names


def varying(runs: Sequence[ReportRun]) -> list[str]:
    """The keys that differ between runs, seeds aside: task, model, and keys that vary within one task and model."""
    keys = [key for key in ("task", "model") if len({setting(key, run.config) for run in runs}) > 1]
    groups = grouped((run, (setting("task", run.config), setting("model", run.config))) for run in runs)
    for members in groups.values():
        first = members[0].settings
        names = dict.fromkeys(name for run in members for name in run.settings)
        keys += [name for name in names if any(run.settings.get(name) != first.get(name) for run in members)]
    return [key for key in dict.fromkeys(keys) if key not in ("task.name", "model.name")] or ["model"]


def require_runs(selection: RunSelection) -> RunSelection:
    """Returns the selection if there is a finished run, or one that diverged where failures are counted.

    Raises:
        ConfigError: a glob finds no run, and why.
        TableError: no run is finished, with the states of the runs; or all are runs of debug=...
    """
    counting = selection.report is not None and selection.report.success is not None
    if any(run.state == "finished" or (counting and run.diverged) for run in selection.runs):
        return selection
    examples = [*(f"{run.folder}: {run.reason}" for run in selection.runs if run.reason), *selection.skipped][:1]
    if not selection.runs and not selection.left_out:
        near = None if Path(selection.name).exists() else folder_like(Path(selection.name))
        text = f"={selection.name}: no run folder there (one holds config.yaml){hint(near)}"
        raise ConfigError([Problem("runs", "; ".join([text, *examples]))], "report.py")
    states = Counter(run.state for run in selection.runs)
    counts = f"among {len(selection.runs)} ({', '.join(f'{count} {state}' for state, count in states.items())})"
    problem = f"{selection.name}: no finished run {counts if states else 'there'}"
    raise TableError("; ".join(filter(None, [problem, *examples, selection.left_out, selection.command])))


def spent_runs(runs: Sequence[ReportRun], root: Path) -> list[SpentRuns]:
    """The runs spent on every task and model of a table's runs below the folder that the report reads, in their order.

    Models are compared fairly if the same effort went into their settings, so all runs count, in the table or not.
    """
    # a run of other settings than the table's is read again: here it counts as the run that it is
    known = {run.folder.resolve(): run for run in runs if run.state not in NOT_BEGUN}
    places: dict[tuple[str, str], set[Path]] = defaultdict(set)
    for run in runs:
        task, model = task_and_split(run.config), setting("model", run.config)
        folder = run.folder.resolve()
        # of all runs of the model; the run alone where it lies in no such folder below the root
        place = folder.parent.parent
        is_shared = place.name == model and place.is_relative_to(root.resolve())
        places[task, model].add(place if is_shared else folder)
    spent = []
    for (task, model), folders in places.items():
        members, unreadable = [], 0
        for folder in sorted({folder for place in folders if place.is_dir() for folder in run_folders(str(place))}):
            try:
                run = known.get(folder.resolve()) or look(folder)
            except Unreadable:
                unreadable += 1
                continue
            mine = (task_and_split(run.config), setting("model", run.config)) == (task, model)
            members += [run] if mine and run.config.get("debug") is None else []
        if members:
            spent.append(_spent(task, model, members, unreadable))
    return spent


def _spent(task: str, model: str, runs: Sequence[ReportRun], unreadable: int) -> SpentRuns:
    """The counts of some runs of one task and model."""
    settings = {repr(sorted(run.settings.items())) for run in runs}
    keys = [key for key in varying(runs) if key not in ("task", "model")] if len(settings) > 1 else []
    states = Counter(run.state for run in runs)
    states.update({"unreadable": unreadable} if unreadable else {})
    return SpentRuns(
        task=task,
        model=model,
        settings=len(settings),
        values={key: len({repr(setting(key, run.config)) for run in runs}) for key in keys},
        states=dict(states),
        hours=math.fsum(run.trained or 0.0 for run in runs) / 3600,
        untimed=sum(run.trained is None for run in runs),
    )
