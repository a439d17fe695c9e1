"""Copies of modules: deep, pickled, and saved by torch; each gives what the module gives."""

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.tasks.kinds.base import kind_of
from support.model_cases import SPECS, network_of
from support.random_batches import drawn_batch
from support.tensors import assert_same, gradients


def _saved_and_loaded(module: nn.Module) -> nn.Module:
    torch.save(module, file := io.BytesIO())
    file.seek(0)
    return torch.load(file, weights_only=False)


WAYS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "copy.deepcopy": copy.deepcopy,
    "pickle": lambda module: pickle.loads(pickle.dumps(module)),
    "torch.save": _saved_and_loaded,
}
"""how a module reaches a second copy, a spawned process, and a file"""


def check_copies(module: nn.Module, fresh: nn.Module, results: Callable[[nn.Module], dict[str, Tensor]]) -> None:
    """Checks copies of a module that is new, of one that has been used, and of one that has loaded weights.

    Args:
        fresh: the same kind of module with other weights.
        results: outputs and gradients of a module, by name.
    """
    new = {way: copied(module) for way, copied in WAYS.items()}
    expected = results(module)
    fresh.load_state_dict(module.state_dict())
    for way, copied in WAYS.items():
        for state, each in {"new": new[way], "used": copied(module), "loaded": copied(fresh)}.items():
            assert type(each) is type(module), f"{way} of a {state} module"
            assert_same(results(each), expected, 0.0, f"{way} of a {state} module")


def check_network_copies(task: str, model: str, **changes: Any) -> None:
    """Checks copies of the network of a task and a model; `changes` are fields of the backbone."""
    batch, kind = drawn_batch(task), kind_of(SPECS[task])

    def results(network: nn.Module) -> dict[str, Tensor]:
        loss, penalty = kind.loss(network, batch)
        return gradients(loss + penalty, network) | {"loss": loss, "penalty": penalty}

    check_copies(network_of(model, task, **changes), network_of(model, task, seed=1, **changes), results)
