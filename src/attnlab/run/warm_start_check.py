"""Whether a run can begin with the weights of another one, as far as both configurations say; needs no torch."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attnlab.config.job_config import JobConfig
from attnlab.config.naming import differences
from attnlab.config.plugins import foreign_targets
from attnlab.config.resolvers import trained_by
from attnlab.config.suggest import command_line
from attnlab.run.read_run_files import RunError
from attnlab.run.run_argument import asked_config

SHAPING = (
    *("d_model", "n_heads", "n_layers", "n_decoder_layers", "d_feed_forward", "share_layers", "norm_placement"),
    *("final_norm", "layer_norm", "feed_forward", "positions", "embedding", "attention_bias"),
)
"""Keys of the backbone that decide what the body computes; dropout and what belongs to the output do not."""


def from_run_problems(jobs: Sequence[JobConfig]) -> list[str]:
    """Problems of jobs that begin with a run which is not there or does not fit; a table of the jobs needs none."""
    takers: dict[str, list[Mapping[str, Any]]] = {}
    for job in jobs:
        if job.typed.from_run is not None:
            takers.setdefault(job.typed.from_run, []).append(job.raw)
    problems = []
    for folder, own in takers.items():
        try:
            given = _given(folder)
        except RunError as error:
            problems.append(str(error))
        else:
            problems += dict.fromkeys(filter(None, (fit_problem(folder, given, job) for job in own)))
    return problems


def fit_problem(folder: str | Path, given: Mapping[str, Any], own: Mapping[str, Any]) -> str | None:
    """Why the weights of a run mean something else in the network of another one; None where they fit.

    They do not where the run has another network (mechanism, widths, norms, positions), or names classes that are not
    allowed.

    Args:
        folder: the run that gives its weights.
        given: its configuration.
        own: the configuration of the run that takes them.
    """
    if foreign := foreign_targets(given):
        return f"from_run={folder}: {foreign[0]}"
    if changed := differences(*map(_shape, (given, own))):
        return f"from_run={folder}: it has another network than this run: {'; '.join(changed)}"
    return None


def _given(folder: str) -> dict[str, Any]:
    """The configuration of the run that gives its weights.

    Raises:
        RunError: it is not there, with the experiment that trains it if one does, or is damaged.
    """
    experiment = trained_by(folder)
    if experiment is None or (Path(folder) / "config.yaml").exists():
        return asked_config("from_run", Path(folder))
    first = command_line("python train.py", f"experiment={experiment}")
    raise RunError(f"from_run={folder}: no run folder (no config.yaml there); train it first: {first}")


def _shape(config: Mapping[str, Any]) -> dict[str, Any]:
    """What decides on a network's body, with or without weights that would show it."""
    model = {key: value for key, value in config["model"].items() if key not in ("name", "ortho", "embedding_dropout")}
    return {"backbone": {key: config["backbone"].get(key) for key in SHAPING}, "model": model}
