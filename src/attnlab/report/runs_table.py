"""Table of runs for notebooks: a row for each run folder."""

from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.config.dotted_keys import flatten
from attnlab.config.run_identity import NOT_IDENTITY
from attnlab.learn.metric_units import whole
from attnlab.report.read_runs import FoundRun, look, run_folders
from attnlab.run.read_run_files import RunError


def runs(folder: str | Path = "experiments/runs") -> pd.DataFrame:
    """Every run at or below a folder, one a row, also unfinished ones.

    Columns: folder, task, model, seed, state, reason (why it has no numbers); each key of the configuration that
    differs between these runs (`optim.lr`); seconds and parameters; each test metric of a whole subset or group.
    Numbers are as recorded: an accuracy of 0.884, not 88.4 %.

    Args:
        folder: a folder, or a glob of folders.

    Raises:
        RunError: there is no run.
    """
    found = [look(path) for path in run_folders(str(folder))]
    if not found:
        raise RunError(f"{folder}: there is no run folder at or below it (no config.yaml)")
    table = pd.DataFrame([_row(run) for run in found])
    settings = pd.DataFrame([_settings(run) for run in found])
    varied = [key for key in settings if settings[key].astype(str).nunique(dropna=False) > 1]
    first = ["folder", "task", "model", "seed", "state", "reason"]
    return pd.concat([table[first], settings[varied], table.drop(columns=first)], axis=1)


def _row(run: FoundRun) -> dict[str, Any]:
    """The fixed columns and the metrics of a run; numbers only of a finished one."""
    names = {"task": run.config["task"]["name"], "model": run.config["model"]["name"]}
    row = {"folder": str(run.folder), **names, "seed": run.seed, "state": run.state, "reason": run.reason}
    if run.state != "finished":
        return row
    return row | {key: run.result.get(key) for key in ("seconds", "parameters")} | whole(run.result["metrics"])


def _settings(run: FoundRun) -> dict[str, Any]:
    """Dotted keys of a run's settings, without names, which have columns of their own."""
    kept = {section: value for section, value in run.config.items() if section not in NOT_IDENTITY}
    return {key: value for key, value in flatten(kept).items() if key not in ("task.name", "model.name")}
