"""Dropout rates that differ between runs trained together: numbers in a network, tensors in a stack of networks."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from attnlab.attention.core.softmax_core import dropped


class RatedDropout(nn.Module):
    """nn.Dropout whose rate is a tensor, so that each member of a stack has its own."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.register_buffer("rate", torch.tensor(rate), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return dropped(x, self.rate, self.training)


def different_rates(template: nn.Module, networks: Sequence[nn.Module]) -> dict[str, list[float]]:
    """Makes buffers of the dropout rates in which the networks differ.

    Args:
        template: a copy of a network, changed in place.

    Returns:
        by the name of each new buffer of `template`, the rates of all networks.
    """
    found = {}
    for path, module in list(template.named_modules()):
        there = [network.get_submodule(path) for network in networks]
        if isinstance(module, nn.Dropout):
            rates = [float(own.p) for own in there]
            if len(set(rates)) > 1:
                parent, _, name = path.rpartition(".")
                setattr(template.get_submodule(parent), name, RatedDropout(rates[0]))
                found[f"{path}.rate"] = rates
        elif isinstance(getattr(module, "dropout", None), (int, float)):
            rates = [float(own.dropout) for own in there]
            if len(set(rates)) > 1:
                del module.dropout
                module.register_buffer("dropout", torch.tensor(rates[0]), persistent=False)
                found[f"{path}.dropout"] = rates
    return found
