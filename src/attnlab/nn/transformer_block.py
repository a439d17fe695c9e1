"""A transformer layer around any attention: residual sums, norms, feed-forward."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attnlab.attention.base import Attention
from attnlab.config.schema import Backbone
from attnlab.kernels.dropout import Dropout
from attnlab.kernels.linear_map import LinearMap
from attnlab.kernels.relu import relu


def make_norm(kind: Literal["layer_norm", "rms_norm"], width: int) -> nn.Module:
    """A trainable norm over the last axis."""
    return nn.LayerNorm(width) if kind == "layer_norm" else nn.RMSNorm(width)


class FeedForward(nn.Module):
    """Feed-forward part: W2 f(W1 x) with relu or gelu, or W3 (swish(W1 x) * W2 x) with glu, and dropout."""

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        activations: dict[str, Callable[[Tensor], Tensor]] = {"relu": relu, "gelu": F.gelu, "glu": F.silu}
        self.activation = activations[backbone.feed_forward]
        self.inner = LinearMap(backbone.d_model, backbone.d_feed_forward)
        self.gate = LinearMap(backbone.d_model, backbone.d_feed_forward) if backbone.feed_forward == "glu" else None
        self.outer = LinearMap(backbone.d_feed_forward, backbone.d_model)
        between = backbone.feed_forward_dropout
        self.inner_dropout = Dropout(backbone.dropout if between is None else between)
        self.dropout = Dropout(backbone.dropout)
        if backbone.initialization == "xavier":
            gain = nn.init.calculate_gain("relu") if backbone.feed_forward == "relu" else 1.0
            nn.init.xavier_uniform_(self.inner.weight, gain=gain)
            nn.init.xavier_uniform_(self.outer.weight)
            if self.gate is not None:
                nn.init.xavier_uniform_(self.gate.weight)

    def forward(self, x: Float[Tensor, "B N E"]) -> Float[Tensor, "B N E"]:
        """The part's output, without residual sum and norm."""
        inner = self.activation(self.inner(x))
        if self.gate is not None:
            inner = inner * self.gate(x)
        return self.dropout(self.outer(self.inner_dropout(inner)))


class Residual(nn.Module):
    """Residual sum and norm around one part of a layer: x + f(norm(x)) (pre) or norm(x + f(x)) (post)."""

    def __init__(self, backbone: Backbone, dropout: float) -> None:
        super().__init__()
        self.norm, self.pre = make_norm(backbone.layer_norm, backbone.d_model), backbone.norm_placement == "pre"
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Tensor, part: Callable[[Tensor], tuple[Tensor, Any]], needed: int | None = None
    ) -> tuple[Tensor, Any]:
        """The new x, and the second result of the part (a penalty or a state).

        Args:
            needed: number of first positions of x that the part returns; None = all.
        """
        out, rest = part(self.norm(x) if self.pre else x)
        x = x[:, :needed] + self.dropout(out)
        return (x if self.pre else self.norm(x)), rest


def computed_alone(attention: nn.Module) -> bool:
    """Whether bidirectional self-attention of first positions may be computed as cross-attention over the sequence.

    Only for a class that declares `cross_equals_self`, and not for an attention that is observed: diagnostics show all
    positions.
    """
    return getattr(type(attention), "cross_equals_self", False) and attention.observer is None


class ParallelAttention(nn.Module):
    """Several attentions in one layer, with the sum of their outputs.

    Each has an output projection, so the sum equals one projection of the concatenated outputs (Qin et al. 2022,
    table 12). The penalty is the mean over the attentions that have one.
    """

    def __init__(self, attentions: Sequence[Attention]) -> None:
        super().__init__()
        # A ModuleList does not say which modules it holds.
        self.attentions = cast(Sequence[Attention], nn.ModuleList(attentions))
        self.orthogonality = any(a.orthogonality for a in attentions)
        self.replaces_feed_forward = any(a.replaces_feed_forward for a in attentions)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None,
        mask: Tensor | None,
        causal: bool,
        prefix_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The sum of the outputs, and the mean penalty."""
        outs, penalties = zip(*(a(x, memory, mask, causal, prefix_mask) for a in self.attentions), strict=True)
        counted = [p for p, a in zip(penalties, self.attentions, strict=True) if a.orthogonality]
        return sum(outs[1:], outs[0]), torch.stack(counted or list(penalties)).mean()

    def init_state(self, batch: int, memory: Tensor | None = None, mask: Tensor | None = None) -> "ParallelState":
        """States of all attentions, as in `Attention.init_state`."""
        return ParallelState(tuple(a.init_state(batch, memory, mask) for a in self.attentions))

    def step(self, x: Tensor, state: "ParallelState") -> tuple[Tensor, "ParallelState"]:
        """One position, as in `Attention.step`."""
        outs, states = zip(*(a.step(x, s) for a, s in zip(self.attentions, state.states, strict=True)), strict=True)
        return sum(outs[1:], outs[0]), ParallelState(states)

    def prefill(self, x: Tensor, bidirectional: bool = False) -> tuple[Tensor, "ParallelState"]:
        """The first positions, as in `Attention.prefill`."""
        outs, states = zip(*(a.prefill(x, bidirectional) for a in self.attentions), strict=True)
        return sum(outs[1:], outs[0]), ParallelState(states)

    def state_size(self, length: int) -> int:
        """As in `Attention.state_size`, over all attentions."""
        return sum(a.state_size(length) for a in self.attentions)


@dataclass(frozen=True)
class ParallelState:
    """States of the attentions of one layer."""

    states: tuple[Any, ...]

    def select(self, rows: Tensor) -> "ParallelState":
        """The states of some rows of the batch."""
        return ParallelState(tuple(s.select(rows) for s in self.states))


class Layer(nn.Module):
    """A layer: self-attention, optional cross-attention, and a feed-forward part unless the attention replaces it or
    the backbone has none."""

    def __init__(
        self, backbone: Backbone, attention: Attention | ParallelAttention, cross: Attention | None = None
    ) -> None:
        super().__init__()
        self.attention, self.cross = attention, cross
        self.around_attention = Residual(backbone, backbone.attention_output_dropout)
        if cross is not None:
            self.around_cross = Residual(backbone, backbone.attention_output_dropout)
        self.has_feed_forward = backbone.feed_forward != "none" and not attention.replaces_feed_forward
        if self.has_feed_forward:
            self.feed_forward = FeedForward(backbone)
            # No second dropout: the feed-forward part ends with one.
            self.around_feed_forward = Residual(backbone, 0.0)

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
        """The new x, and the penalties of the attentions that have one.

        Args:
            prefix_mask: as in `Attention.forward`.
            needed: only so many first positions are read later; the others are left out where possible.
        """
        attention = self.attention
        if needed is not None and not causal and computed_alone(attention):
            x, penalty = self.around_attention(x, lambda y: attention(y[:, :needed], y, mask, False), needed)
        else:
            x, penalty = self.around_attention(x, lambda y: attention(y, None, mask, causal, prefix_mask))
        penalties = [penalty] if attention.orthogonality else []
        cross = self.cross
        if cross is not None:
            x, penalty = self.around_cross(x, lambda y: cross(y, memory, memory_mask, False))
            penalties += [penalty] if cross.orthogonality else []
        return self._fed_forward(x[:, :needed]), penalties

    def init_state(self, batch: int, memory: Tensor | None = None, memory_mask: Tensor | None = None) -> tuple:
        """States of self-attention and cross-attention before the first position."""
        cross = None if self.cross is None else self.cross.init_state(batch, memory, memory_mask)
        return self.attention.init_state(batch), cross

    def step(self, x: Float[Tensor, "B 1 E"], state: tuple) -> tuple[Float[Tensor, "B 1 E"], tuple]:
        """One position: equals the same row of the causal forward."""
        attention, cross, (over_self, over_memory) = self.attention, self.cross, state
        x, over_self = self.around_attention(x, lambda y: attention.step(y, over_self))
        if cross is not None:
            x, over_memory = self.around_cross(x, lambda y: cross.step(y, over_memory))
        return self._fed_forward(x), (over_self, over_memory)

    def prefill(self, x: Float[Tensor, "B N E"], bidirectional: bool) -> tuple[Float[Tensor, "B N E"], tuple]:
        """The first positions of a layer without cross-attention, as in `Attention.prefill`."""
        x, state = self.around_attention(x, lambda y: self.attention.prefill(y, bidirectional))
        return self._fed_forward(x), (state, None)

    def _fed_forward(self, x: Tensor) -> Tensor:
        if not self.has_feed_forward:
            return x
        return self.around_feed_forward(x, lambda y: (self.feed_forward(y), None))[0]
