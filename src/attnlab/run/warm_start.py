"""Warm start: loads the weights of another run into a network before training (`from_run`)."""

from pathlib import Path
from typing import Any

from torch import nn

from attnlab.run.read_checkpoints import run_weights
from attnlab.run.run_folder import RunError, read_config
from attnlab.run.warm_start_check import fit_problem


def load_warm_start(network: nn.Module, folder: Path, wanted: dict[str, Any]) -> dict[str, Any]:
    """Load the weights of another run into the embedding and the layers of a network; task and outputs may differ.

    Args:
        wanted: configuration of the run that is trained.

    Returns:
        folder, checkpoint and step of the weights, and the share of the numbers of the network that they fill.

    Raises:
        RunError: the networks differ (`fit_problem`), or the vocabulary or the longest sequence does.
    """
    stored = read_config(folder / "config.yaml")
    if problem := fit_problem(folder, stored, wanted):
        raise RunError(problem)
    weights, where = run_weights(folder, "selected", stored["train"]["selection"])
    there = {_without_prefix(name): value for name, value in weights.items() if _in_body(name)}
    mine = {name: value for name, value in network.state_dict().items() if _in_body(name)}
    unfit = [
        name for name, value in mine.items() if getattr(there.get(_without_prefix(name)), "shape", None) != value.shape
    ]
    unfit += sorted(there.keys() - set(map(_without_prefix, mine)))
    if unfit:
        raise RunError(f"from_run={folder}: its weights do not fit this network ({unfit[0]}){_cause(unfit[0])}")
    loaded = {name: there[_without_prefix(name)] for name in mine}
    network.load_state_dict(network.state_dict() | loaded)
    total = sum(value.numel() for value in network.state_dict().values())
    return {"run": str(folder), **where, "share": sum(value.numel() for value in loaded.values()) / total}


BODY = ("embedding", "source_embedding", "target_embedding", "encoder", "decoder")
"""Parts of a network that other tasks can use; the rest depends on the outputs of one task."""


def _without_prefix(name: str) -> str:
    """Name of a weight without the prefix that embedding and encoder have in a classifier."""
    return name.removeprefix("sequence.")


def _in_body(name: str) -> bool:
    return _without_prefix(name).split(".")[0] in BODY


def _cause(name: str) -> str:
    if ".learned." in name:
        return ": it learned positions up to another length; set the longest input of this task as in the run"
    return ": the vocabulary is another" if name.endswith("embedding.table.weight") else ""
