"""Checks from two configurations whether a run can start with the weights of another run; imports no torch."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from attnlab.config.job_config import JobConfig, trained_by
from attnlab.config.message_text import command_line
from attnlab.config.run_identity import differences
from attnlab.config.targets import foreign_targets
from attnlab.run.named_runs import asked_config
from attnlab.run.read_run_files import RunError

SHAPING = (
    *("d_model", "n_heads", "n_layers", "n_decoder_layers", "d_feed_forward", "share_layers", "norm_placement"),
    *("final_norm", "layer_norm", "feed_forward", "positions", "embedding", "attention_bias"),
)
"""Keys of the backbone on which the computation of the layers depends; not dropout and options of the output."""


def from_run_problems(jobs: Sequence[JobConfig]) -> list[str]:
    """Problems of jobs whose `from_run` is missing or does not fit."""
    stored_config = cache(_given)
    problems: list[str | None] = []
    for job in jobs:
        if (folder := job.typed.from_run) is not None:
            try:
                problems.append(fit_problem(folder, stored_config(folder), job.raw))
            except RunError as error:
                problems.append(str(error))
    return list(dict.fromkeys(filter(None, problems)))


def fit_problem(folder: str | Path, stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> str | None:
    """Why weights of one run cannot be used in the network of another run (another network, classes that are not
    allowed); None if they fit.

    Args:
        folder, stored: the run that the weights are from, and its configuration.
        wanted: configuration of the run that is trained.
    """
    if foreign := foreign_targets(stored):
        return f"from_run={folder}: {foreign[0]}"
    if changed := differences(*map(_shape, (stored, wanted))):
        return f"from_run={folder}: it has another network than this run: {'; '.join(changed)}"
    return None


def _given(folder: str) -> dict[str, Any]:
    """Configuration of the run that the weights are from; a RunError names the experiment that trains it."""
    experiment = trained_by(folder)
    if experiment is None or (Path(folder) / "config.yaml").exists():
        return asked_config("from_run", Path(folder))
    first = command_line("python train.py", f"experiment={experiment}")
    raise RunError(f"from_run={folder}: no run folder (no config.yaml there); train it first: {first}")


def _shape(config: Mapping[str, Any]) -> dict[str, Any]:
    """Options that the layers of a network depend on, also those that change no weight."""
    model = {key: value for key, value in config["model"].items() if key not in ("name", "ortho", "embedding_dropout")}
    return {"backbone": {key: config["backbone"].get(key) for key in SHAPING}, "model": model}
