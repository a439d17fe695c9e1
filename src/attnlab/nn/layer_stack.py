"""Stacks of layers (encoder, decoder), the mean of their penalties, and the state of incremental decoding."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attnlab.nn.transformer_block import Layer


class LayerStack(nn.Module):
    """Layers in sequence.

    Args:
        plan: for each application the kind of its layer (a hashable from `config.layer_plan.layer_plan`).
        make_layer: builds a layer of a kind.
        share: applications of the same kind share one layer (Universal Transformer without halting).
        norm: final norm, or None.
    """

    def __init__(
        self,
        plan: Sequence[tuple[int, ...]],
        make_layer: Callable[[tuple[int, ...]], Layer],
        share: bool,
        norm: nn.Module | None,
    ) -> None:
        super().__init__()
        kinds = list(dict.fromkeys(plan)) if share else list(plan)
        # A ModuleList does not say which modules it holds.
        self.layers = cast(Sequence[Layer], nn.ModuleList(make_layer(kind) for kind in kinds))
        self.applications = [kinds.index(kind) for kind in plan] if share else list(range(len(plan)))
        self.norm = nn.Identity() if norm is None else norm

    def forward(
        self,
        x: Float[Tensor, "B N E"],
        mask: Bool[Tensor, "B N"] | None,
        causal: bool,
        memory: Float[Tensor, "B M E"] | None = None,
        memory_mask: Bool[Tensor, "B M"] | None = None,
        needed: int | None = None,
        prefix_mask: Bool[Tensor, "B P"] | None = None,
    ) -> tuple[Float[Tensor, "B R E"], list[Float[Tensor, ""]]]:
        """The output of the last layer, and the penalties of the attentions that have one.

        Args:
            prefix_mask: as in `Attention.forward`.
            needed: number of first positions that are returned; None = all.
        """
        penalties, last = [], len(self.applications) - 1
        for number, index in enumerate(self.applications):
            wanted = needed if number == last else None
            x, more = self.layers[index](x, mask, causal, memory, memory_mask, wanted, prefix_mask)
            penalties += more
        return self.norm(x), penalties

    def init_state(self, batch: int, memory: Tensor | None = None, memory_mask: Tensor | None = None) -> list[tuple]:
        """States before the first position, one for each application of a layer."""
        return [self.layers[index].init_state(batch, memory, memory_mask) for index in self.applications]

    def step(self, x: Float[Tensor, "B 1 E"], state: list[tuple]) -> tuple[Float[Tensor, "B 1 E"], list[tuple]]:
        """One position through all layers."""
        after = []
        for index, before in zip(self.applications, state, strict=True):
            x, now = self.layers[index].step(x, before)
            after.append(now)
        return self.norm(x), after

    def prefill(self, x: Float[Tensor, "B N E"], bidirectional: bool) -> list[tuple]:
        """States after the first positions, of sequences without padding; see `Attention.prefill`."""
        after = []
        for index in self.applications:
            x, now = self.layers[index].prefill(x, bidirectional)
            after.append(now)
        return after

    def state_size(self, length: int) -> int:
        """Size of the self-attention states of one example after `length` tokens, in numbers, over all applications."""
        return sum(self.layers[index].attention.state_size(length) for index in self.applications)


def mean_penalty(penalties: list[Tensor], like: Tensor) -> Float[Tensor, ""]:
    """Mean over the attentions that have a penalty; zero where none has."""
    return torch.stack(penalties).mean() if penalties else like.new_zeros(())


@dataclass(frozen=True)
class DecodeState:
    """State of incremental decoding: the number of tokens read, and the states of all layers."""

    position: int
    layers: list[tuple]

    def select(self, rows: Tensor) -> "DecodeState":
        """The state of some rows of the batch."""
        layers = [tuple(None if state is None else state.select(rows) for state in layer) for layer in self.layers]
        return DecodeState(self.position, layers)
