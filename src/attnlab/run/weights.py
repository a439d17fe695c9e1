"""Weights of runs: those a run was tested with, and beginning another run with them."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from attnlab.config.naming import comparable, differences
from attnlab.learn.callbacks import weights_name
from attnlab.run.record import RunError, read_config
from attnlab.run.resume import read_checkpoint
from attnlab.run.testing import network_weights


def run_weights(folder: Path, wanted: str, rule: str) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Weights of a run's network, and which they are (`checkpoint`, `step`).

    Args:
        wanted: selected (as the run's own test), last or best.
        rule: the run's `train.selection`.

    Raises:
        RunError: there are none, or they are damaged.
    """
    best = folder / weights_name("")
    if wanted == "best" and rule != "best_validation":
        raise RunError("checkpoint=best: this run kept no best weights, its train.selection is last_step; use last")
    if wanted == "best" or (wanted == "selected" and rule == "best_validation" and best.exists()):
        saved = read_checkpoint(best)
        return saved["network"], {"checkpoint": "best", "step": saved["step"]}
    saved = read_checkpoint(folder / "last.ckpt")
    return network_weights(saved), {"checkpoint": "last", "step": saved["global_step"]}


def begin_with(network: nn.Module, folder: Path, own: dict[str, Any]) -> dict[str, Any]:
    """Load a run's weights into the embedding and the layers of a network, whose task and outputs may be others.

    Args:
        folder: the run that gives them.
        own: the configuration of the run that takes them, for the message.

    Returns:
        where they are from: folder, checkpoint, step, and how many numbers of the network they fill (`share`).

    Raises:
        RunError: a weight of the embedding or of a layer is missing there or has another shape.
    """
    given = read_config(folder / "config.yaml")
    weights, where = run_weights(folder, "selected", given["train"]["selection"])
    there = {_place(name): value for name, value in weights.items()}
    mine = {name: value for name, value in network.state_dict().items() if _place(name).split(".")[0] in BODY}
    unfit = [name for name, value in mine.items() if getattr(there.get(_place(name)), "shape", None) != value.shape]
    if unfit:
        changed = differences(*(comparable(config) for config in (given, own)))
        shaping = [line for line in changed if line.startswith(("backbone.", "model."))]
        raise RunError(
            f"from_run={folder}: its weights do not fit this network ({unfit[0]}{' and more' if unfit[1:] else ''}); "
            f"what shapes a network differs in: {'; '.join(shaping) or 'the vocabulary or the longest sequence'}"
        )
    loaded = {name: there[_place(name)] for name in mine}
    network.load_state_dict(network.state_dict() | loaded)
    total = sum(value.numel() for value in network.state_dict().values())
    return {"run": str(folder), **where, "share": sum(value.numel() for value in loaded.values()) / total}


BODY = ("embedding", "source_embedding", "target_embedding", "encoder", "decoder")
"""Parts of networks that other tasks can go on with; the rest is made for one task's answers."""


def _place(name: str) -> str:
    """The name of a weight without the part of a classifier that holds embedding and encoder."""
    return name.removeprefix("sequence.")
