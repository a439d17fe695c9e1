"""Warm start: a run begins with the weights of another run (`from_run`)."""

from pathlib import Path
from typing import Any

from torch import nn

from attnlab.run.read_checkpoints import run_weights
from attnlab.run.run_folder import RunError, read_config
from attnlab.run.warm_start_check import fit_problem


def begin_with(network: nn.Module, folder: Path, own: dict[str, Any]) -> dict[str, Any]:
    """Load a run's weights into the embedding and the layers of a network, whose task and outputs may be others.

    Args:
        folder: the run that gives them.
        own: the configuration of the run that takes them.

    Returns:
        where they are from: folder, checkpoint, step, and how many numbers of the network they fill (`share`).

    Raises:
        RunError: it does not fit (`fit_problem`), or has another vocabulary or longest sequence.
    """
    given = read_config(folder / "config.yaml")
    if problem := fit_problem(folder, given, own):
        raise RunError(problem)
    weights, where = run_weights(folder, "selected", given["train"]["selection"])
    there = {_place(name): value for name, value in weights.items() if _in_body(name)}
    mine = {name: value for name, value in network.state_dict().items() if _in_body(name)}
    unfit = [name for name, value in mine.items() if getattr(there.get(_place(name)), "shape", None) != value.shape]
    unfit += sorted(there.keys() - set(map(_place, mine)))
    if unfit:
        raise RunError(f"from_run={folder}: its weights do not fit this network ({unfit[0]}){_cause(unfit[0])}")
    loaded = {name: there[_place(name)] for name in mine}
    network.load_state_dict(network.state_dict() | loaded)
    total = sum(value.numel() for value in network.state_dict().values())
    return {"run": str(folder), **where, "share": sum(value.numel() for value in loaded.values()) / total}


BODY = ("embedding", "source_embedding", "target_embedding", "encoder", "decoder")
"""Parts of networks that other tasks can go on with; the rest is made for one task's answers."""


def _place(name: str) -> str:
    """The name of a weight without the part of a classifier that holds embedding and encoder."""
    return name.removeprefix("sequence.")


def _in_body(name: str) -> bool:
    return _place(name).split(".")[0] in BODY


def _cause(name: str) -> str:
    if ".learned." in name:
        return ": it learned positions up to another length; set the longest input of this task to that of the run"
    return ": the vocabulary is another" if name.endswith("embedding.table.weight") else ""
