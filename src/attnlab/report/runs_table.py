"""Table of runs for notebooks: a row for each run folder."""

import glob
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.config.dotted_keys import flatten
from attnlab.config.message_text import hint
from attnlab.config.run_identity import comparable
from attnlab.config.user_path import user_path
from attnlab.learn.metric_units import whole
from attnlab.report.runs.read_runs import ReportRun, look, run_folders
from attnlab.run.named_runs import folder_like
from attnlab.run.read_run_files import RunError, Unreadable

FIRST = ["folder", "task", "model", "seed", "state", "reason"]


def runs(folder: str | Path = "experiments/runs") -> pd.DataFrame:
    """Every run at or below a folder, one a row, also unfinished ones.

    Columns: folder, task, model, seed, state, reason (why it has no numbers); each key of the configuration that
    differs between runs of one task (`optim.lr`); seconds and parameters; each test metric of a whole subset or group.
    A key that one of two models lacks does not differ between them. Keys that differ only from task to task are left
    out, too: `load_run(folder).config` has all. Numbers are as recorded: an accuracy of 0.884, not 88.4 %.

    Runs of `debug=...` have the state `debug`, runs whose config.yaml is damaged `unreadable` and no other columns.

    Args:
        folder: a folder, or a glob of folders.

    Raises:
        RunError: there is no run, or no such folder (with the nearest one).
    """
    folder = user_path("folder", folder)
    folders = run_folders(str(folder))
    if not folders:
        folder_exists = Path(folder).exists() or glob.has_magic(str(folder))
        missing = f"no such folder{hint(folder_like(Path(folder)))}"
        problem = "there is no run folder at or below it (no config.yaml)" if folder_exists else missing
        raise RunError(f"{folder}: {problem}")
    rows: list[dict[str, Any]] = []
    settings: dict[int, dict[str, Any]] = {}
    for path in folders:
        try:
            run = look(path)
        except Unreadable as error:
            rows.append({"folder": str(path), "state": "unreadable", "reason": error.short})
        else:
            flat = flatten(comparable(run.config))
            # names have columns of their own
            settings[len(rows)] = {key: value for key, value in flat.items() if key not in ("task.name", "model.name")}
            rows.append(_row(run))
    keys = pd.DataFrame.from_dict(settings, orient="index")
    varied = _varied([(rows[number]["task"], rows[number]["model"], flat) for number, flat in settings.items()])
    table = pd.DataFrame(rows).reindex(columns=list(dict.fromkeys([*FIRST, *(key for row in rows for key in row)])))
    return pd.concat([table[FIRST], keys[varied], table.drop(columns=FIRST)], axis=1)


def _varied(runs: Sequence[tuple[str, str, Mapping[str, Any]]]) -> list[str]:
    """Keys with two values in runs of one task, or that only some runs of one task and model have.

    Args:
        runs: task, model and flattened configuration of each run.
    """
    values: dict[str, dict[tuple[str, ...], set[str | None]]] = defaultdict(lambda: defaultdict(set))
    for (task, model, settings), key in product(runs, dict.fromkeys(key for *_, flat in runs for key in flat)):
        value = str(settings[key]) if key in settings else None
        values[key][task, model].add(value)
        values[key][task,] |= {value} - {None}
    return [key for key, groups in values.items() if any(len(seen) > 1 for seen in groups.values())]


def _row(run: ReportRun) -> dict[str, Any]:
    """The fixed columns and the metrics of a run; numbers only of a finished one."""
    names = {"task": run.config["task"]["name"], "model": run.config["model"]["name"]}
    row = {"folder": str(run.folder), **names, "seed": run.seed, "state": run.state, "reason": run.reason}
    if run.state != "finished":
        return row
    if debug := run.config.get("debug"):
        row |= {"state": "debug", "reason": f"debug={debug}: its numbers mean nothing"}
    return row | {key: run.result.get(key) for key in ("seconds", "parameters")} | whole(run.result["metrics"])
