"""Dropout rates that differ between packed runs: turned into buffers, so that a stack holds one rate per network."""

from collections.abc import Sequence

import torch
from torch import nn

from attnlab.kernels.dropout import Dropout


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
        if name == "p" and not isinstance(module, Dropout):
            # torch's own takes no tensor as rate
            parent, _, child = path.rpartition(".")
            module = Dropout(module.p)
            setattr(template.get_submodule(parent), child, module)
        delattr(module, name)
        module.register_buffer(name, torch.tensor(rates[0]), persistent=False)
        found[f"{path}.{name}"] = rates
    return found
