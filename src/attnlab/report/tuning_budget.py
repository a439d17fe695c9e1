"""Tuning budget of a table: every run that was spent on its tasks and models, in the table or not.

Models are compared fairly if the same effort went into their settings. All run folders of a model on a task are
counted, `<runs>/<task and split>/<model>/*/seed*`: runs that are no part of the table, failed and abandoned ones too.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from attnlab.config.message_text import counted, listed
from attnlab.report.analysis_record import SpentRuns
from attnlab.report.build_table import value_of
from attnlab.report.read_runs import FoundRun, Unreadable, look, run_folders
from attnlab.report.run_selection import varying


def spent_runs(runs: Sequence[FoundRun]) -> list[SpentRuns]:
    """The runs spent on every task and model of some runs, in their order.

    Args:
        runs: of a table; missing ones name the folders where others may lie.
    """
    # a run of other settings than the table's is read again: here it counts as the run that it is
    found = {run.folder.resolve(): run for run in runs if run.state not in ("missing", "other settings")}
    folders: dict[tuple[str, str], set[Path]] = defaultdict(set)
    for run in runs:
        # <runs>/<task and split>/<model>/<tag>/seed<k>
        folders[value_of("task", run), value_of("model", run)].add(run.folder.parents[1])
    spent = []
    for (task, model), places in folders.items():
        members, unreadable = [], 0
        for folder in sorted({folder for place in places if place.is_dir() for folder in run_folders(str(place))}):
            try:
                run = found.get(folder.resolve()) or look(folder)
            except Unreadable:
                unreadable += 1
                continue
            # a folder of runs may have another shape
            if (value_of("task", run), value_of("model", run)) == (task, model):
                members.append(run)
        if members:
            spent.append(_spent(task, model, members, unreadable))
    return spent


def _spent(task: str, model: str, runs: Sequence[FoundRun], unreadable: int) -> SpentRuns:
    """The counts of some runs of one task and model."""
    settings = {repr(sorted(run.settings.items())) for run in runs}
    keys = [key for key in varying(runs) if key not in ("task", "model")] if len(settings) > 1 else []
    states = Counter(run.state for run in runs)
    states.update({"unreadable": unreadable} if unreadable else {})
    return SpentRuns(
        task=task,
        model=model,
        settings=len(settings),
        values={key: len({repr(value_of(key, run)) for run in runs}) for key in keys},
        states=dict(states),
        hours=math.fsum(run.trained or 0.0 for run in runs) / 3600,
        untimed=sum(run.trained is None for run in runs),
    )


def budget_lines(spent: Sequence[SpentRuns]) -> list[str]:
    """A sentence for each task and model, and one if models of a task were tuned unequally."""
    lines: list[str] = []
    tried: dict[str, dict[str, int]] = defaultdict(dict)
    for one in spent:
        values = [f"{key}: {count} values" for key, count in one.values.items()]
        settings = counted(one.settings, "setting") + (f" ({listed(values, 6)})" if values else "")
        states = listed([f"{count} {state}" for state, count in one.states.items()])
        untimed = f", without {one.untimed} whose time is not known" if one.untimed else ""
        runs = f"{counted(one.runs, 'run')} ({states}), {one.hours:.2f} hours of training{untimed}"
        lines.append(f"{one.model} on {one.task}: {settings}, {runs}")
        tried[one.task][one.model] = one.settings
    for task, counts in tried.items():
        if len(set(counts.values())) > 1:
            told = listed([f"{model} {count}" for model, count in counts.items()])
            lines.append(f"settings tried on {task} differ between models ({told}): a difference may be due to tuning")
    return lines
