"""Tuning budget of a table: every run that was spent on its tasks and models, in the table or not.

Models are compared fairly if the same effort went into their settings.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from attnlab.config.run_identity import task_and_split
from attnlab.config.validation.report_names import setting
from attnlab.report.analysis_record import SpentRuns
from attnlab.report.runs.read_runs import NOT_BEGUN, FoundRun, Unreadable, look, run_folders
from attnlab.report.runs.select_runs import varying


def spent_runs(runs: Sequence[FoundRun], root: Path) -> list[SpentRuns]:
    """The runs spent on every task and model of some runs, in their order.

    Args:
        runs: of a table; missing ones name the folders where others may lie.
        root: folder that the report reads.
    """
    # a run of other settings than the table's is read again: here it counts as the run that it is
    known = {run.folder.resolve(): run for run in runs if run.state not in NOT_BEGUN}
    places: dict[tuple[str, str], set[Path]] = defaultdict(set)
    for run in runs:
        task, model = task_and_split(run.config), setting("model", run.config)
        places[task, model].add(_place(run.folder.resolve(), model, root.resolve()))
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


def _place(folder: Path, model: str, root: Path) -> Path:
    """The folder of all runs of a run's model; the run alone where it lies in no such folder below the root."""
    place = folder.parent.parent
    return place if place.name == model and place.is_relative_to(root) else folder


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
        values={key: len({repr(setting(key, run.config)) for run in runs}) for key in keys},
        states=dict(states),
        hours=math.fsum(run.trained or 0.0 for run in runs) / 3600,
        untimed=sum(run.trained is None for run in runs),
    )
