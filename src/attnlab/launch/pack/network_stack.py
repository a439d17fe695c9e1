"""Stack of networks of the same shape: all parameters in one matrix, with one row for each network.

The parameters of a network become views into its row, so that a network can be read, saved, evaluated and redrawn as
if it were alone. Together they are computed by `functional_call` of torch.func, under vmap over the rows.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from attnlab.data.batch import Batch
from attnlab.launch.pack.dropout_rates import different_rates
from attnlab.learn.objectives import Objective

ALIGNED = 32
"""the values of every parameter start at a multiple of this number, as fast kernels need it"""


class _Computed(nn.Module):
    """Module for functional_call: the objective of a network."""

    def __init__(self, network: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.network, self.objective = network, objective

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        return self.objective(self.network, batch)


class NetworkStack:
    """Networks whose parameters are the rows of a matrix.

    Args:
        networks: of one shape, on one device; their parameters and buffers become views.
        objective: (network, batch) -> loss, penalty.
        model: number of the network whose code computes all networks (a network without orthogonality loss skips it).

    Attributes:
        flat: [members, numbers], all parameters; a leaf, whose gradient holds the gradients of all members.
        rows: [numbers] of each member, views of `flat`: the parameters of the optimisers.
    """

    def __init__(self, networks: Sequence[nn.Module], objective: Objective, model: int = 0) -> None:
        template = copy.deepcopy(networks[model]).train()
        rates = different_rates(template, networks)
        self.size = len(networks)
        self.computed = _Computed(template, objective)
        first = list(networks[0].named_parameters())
        self.names = [name for name, _ in first]
        self.shapes = [parameter.shape for _, parameter in first]
        self.splits = [part for _, p in first for part in (p.numel(), -p.numel() % ALIGNED)]
        like = first[0][1]
        self.flat = torch.zeros(self.size, sum(self.splits), dtype=like.dtype, device=like.device)
        for row, network in zip(self.flat, networks, strict=True):
            for own, view in zip(network.parameters(), self.parts(row), strict=True):
                own.data = view.copy_(own.data)
        self.rows = [nn.Parameter(row) for row in self.flat]
        self.flat.requires_grad_()
        self.buffers = {name: _stacked(name, networks) for name, _ in networks[0].named_buffers()} | {
            name: torch.tensor(values, dtype=like.dtype, device=like.device) for name, values in rates.items()
        }

    def parts(self, flat: Tensor) -> list[Tensor]:
        """Views of a row, or of all rows, with the shapes of the parameters."""
        pieces = flat.split(self.splits, dim=-1)[::2]
        return [piece.view(*flat.shape[:-1], *shape) for piece, shape in zip(pieces, self.shapes, strict=True)]

    def losses(
        self, flat: Tensor, buffers: Mapping[str, Tensor], kind: type[Batch], given: dict[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Losses and penalties [members] of the fields of a batch, of shape [members, batch, ...]."""
        own = dict(zip(self.names, self.parts(flat), strict=True)) | dict(buffers)
        tensors = {f"network.{name}": value for name, value in own.items()}

        def one(tensors: dict[str, Tensor], given: dict[str, Any]) -> tuple[Tensor, Tensor]:
            return functional_call(self.computed, tensors, (kind(**given),))

        return vmap(one, randomness="different")(tensors, given)

    def given(self, batch: Batch) -> dict[str, Tensor]:
        """Fields of a batch of all members, one after another, with the shape [members, batch, ...]."""
        return {name: tensor.unflatten(0, (self.size, -1)) for name, tensor in batch.tensors().items()}

    def of_batch(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Losses and penalties [members] of a batch of all members, one after another."""
        return self.losses(self.flat, self.buffers, type(batch), self.given(batch))


def _stacked(name: str, networks: Sequence[nn.Module]) -> Tensor:
    """A buffer of all networks [members, ...]; the buffers of the networks become views of it."""
    together = torch.stack([network.get_buffer(name) for network in networks])
    module, _, last = name.rpartition(".")
    for network, own in zip(networks, together, strict=True):
        network.get_submodule(module)._buffers[last] = own
    return together
