"""Warm start (`from_run`): whether a run can start with the weights of another run, and their loading.

The check needs two configurations only, and no torch.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnlab.config.job_config import JobConfig, trained_by
from attnlab.config.message_text import command_line
from attnlab.config.problem import Problem
from attnlab.config.run_identity import differences
from attnlab.config.targets import foreign_targets
from attnlab.run.named_runs import config_of_folder
from attnlab.run.read_run_files import RunError, read_config

if TYPE_CHECKING:
    from torch import nn

BODY = ("embedding", "source_embedding", "target_embedding", "encoder", "decoder")
"""Parts of a network that other tasks can use; the rest depends on the outputs of one task."""
SHAPING = (
    *("d_model", "n_heads", "n_layers", "n_decoder_layers", "d_attention", "d_feed_forward", "share_layers"),
    *(
        "norm_placement",
        "final_norm",
        "layer_norm",
        "feed_forward",
        "positions",
        "embedding",
        "attention_bias",
        "architecture",
    ),
)
"""Keys of the backbone on which the computation of the layers depends; not dropout and options of the output."""
NOT_SHAPING = ("name", "mechanism", "ortho", "embedding_dropout")
"""Keys of the model on which it does not depend; the mechanism is in the slots that have it."""


def from_run_problems(jobs: Sequence[JobConfig]) -> list[Problem]:
    """Problems of jobs whose `from_run` is missing or does not fit."""
    stored_config = cache(_source_config)
    problems: list[Problem | None] = []
    for job in jobs:
        if (folder := job.typed.from_run) is not None:
            try:
                problems.append(fit_problem(folder, stored_config(folder), job.raw))
            except RunError as error:
                problems.append(Problem("from_run", str(error).removeprefix("from_run")))
    return list(dict.fromkeys(filter(None, problems)))


def fit_problem(folder: str | Path, stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> Problem | None:
    """Why the weights of one run (`folder`, `stored`) cannot be used in the network of another; None if they fit."""
    if foreign := foreign_targets(stored):
        return Problem("from_run", f"={folder}: {foreign[0]}")
    if changed := differences(*map(_shape, (stored, wanted))):
        text = f"={folder}: it has another network than this run: {'; '.join(changed)}"
        return Problem("from_run", text)
    return None


def _source_config(folder: str) -> dict[str, Any]:
    """Configuration of the run that the weights are from; a RunError names the experiment that trains it."""
    experiment = trained_by(folder)
    if experiment is None or (Path(folder) / "config.yaml").exists():
        return config_of_folder("from_run", Path(folder))
    first = command_line("python train.py", f"experiment={experiment}")
    raise RunError(f"from_run={folder}: no run folder (no config.yaml there); train it first: {first}")


def _shape(config: Mapping[str, Any]) -> dict[str, Any]:
    """Options that the layers of a network depend on, also those that change no weight."""
    model = {key: value for key, value in config["model"].items() if key not in NOT_SHAPING}
    return {"backbone": {key: config["backbone"].get(key) for key in SHAPING}, "model": model}


def load_warm_start(network: "nn.Module", folder: Path, wanted: dict[str, Any]) -> dict[str, Any]:
    """Load the weights of another run into the embedding and the layers of a network; task and outputs may differ.

    Args:
        wanted: configuration of the run that is trained.

    Returns:
        folder, checkpoint and step of the weights, and the share of the numbers of the network that they fill.

    Raises:
        RunError: the networks differ (`fit_problem`), or the vocabulary or the longest sequence does.
    """
    from attnlab.run.read_checkpoints import run_weights

    stored = read_config(folder / "config.yaml")
    if problem := fit_problem(folder, stored, wanted):
        raise RunError(problem)
    weights, where = run_weights(folder, "selected", stored["train"]["selection"])
    stored_body = {_without_prefix(name): value for name, value in weights.items() if _in_body(name)}
    own_body = {name: value for name, value in network.state_dict().items() if _in_body(name)}
    unfit = [
        name
        for name, value in own_body.items()
        if getattr(stored_body.get(_without_prefix(name)), "shape", None) != value.shape
    ]
    unfit += sorted(stored_body.keys() - set(map(_without_prefix, own_body)))
    if unfit:
        raise RunError(f"from_run={folder}: its weights do not fit this network ({unfit[0]}){_cause(unfit[0])}")
    loaded = {name: stored_body[_without_prefix(name)] for name in own_body}
    network.load_state_dict(network.state_dict() | loaded)
    total = sum(value.numel() for value in network.state_dict().values())
    return {"run": str(folder), **where, "share": sum(value.numel() for value in loaded.values()) / total}


def _without_prefix(name: str) -> str:
    """Name of a weight without the prefix that embedding and encoder have in a classifier."""
    return name.removeprefix("sequence.")


def _in_body(name: str) -> bool:
    return _without_prefix(name).split(".")[0] in BODY


def _cause(name: str) -> str:
    if ".learned." in name:
        return ": it learned positions up to another length; set the longest input of this task as in the run"
    return ": the vocabulary is another" if name.endswith("embedding.table.weight") else ""
