"""Dropout rates that differ between packed runs: turned into buffers, so that a stack holds one rate per network."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from attnlab.attention.core.softmax_core import dropped


class RatedDropout(nn.Module):
    """nn.Dropout with a tensor as rate, so that each member of a stack has its own rate."""

    rate: Tensor

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.register_buffer("rate", torch.tensor(rate), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return dropped(x, self.rate, self.training)


def different_rates(template: nn.Module, networks: Sequence[nn.Module]) -> dict[str, list[float]]:
    """Replaces dropout rates that differ between networks by buffers.

    Args:
        template: a copy of a network, changed in place.

    Returns:
        the rates of all networks, by the name of the new buffer of `template`.
    """
    found = {}
    for path, module in list(template.named_modules()):
        name = "p" if isinstance(module, nn.Dropout) else "dropout"
        if not isinstance(getattr(module, name, None), (int, float)):
            continue
        rates = [float(getattr(network.get_submodule(path), name)) for network in networks]
        if len(set(rates)) == 1:
            continue
        if name == "p":
            parent, _, child = path.rpartition(".")
            setattr(template.get_submodule(parent), child, RatedDropout(rates[0]))
            found[f"{path}.rate"] = rates
        else:
            del module.dropout
            module.register_buffer("dropout", torch.tensor(rates[0]), persistent=False)
            found[f"{path}.dropout"] = rates
    return found
