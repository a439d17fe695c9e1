"""One transformer layer around any attention: residual sums, norms, feed-forward."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attnlab.attention.base import Attention


@dataclass(frozen=True, kw_only=True)
class BlockShape:
    """Sizes and choices of a layer; the backbone's, with what the model overrides."""

    d_model: int
    d_feed_forward: int
    dropout: float
    attention_output_dropout: float
    norm_placement: Literal["pre", "post"]
    layer_norm: Literal["layer_norm", "rms_norm"]
    feed_forward: Literal["relu", "gelu", "glu"]
    initialization: Literal["xavier", "torch"]


def make_norm(kind: Literal["layer_norm", "rms_norm"], width: int) -> nn.Module:
    return nn.LayerNorm(width) if kind == "layer_norm" else nn.RMSNorm(width)


class FeedForward(nn.Module):
    """relu, gelu: W2 f(W1 x); glu: W3 (swish(W1 x) * W2 x). Dropout after the inner and after the outer map."""

    def __init__(self, shape: BlockShape) -> None:
        super().__init__()
        self.activation = {"relu": F.relu, "gelu": F.gelu, "glu": F.silu}[shape.feed_forward]
        self.inner = nn.Linear(shape.d_model, shape.d_feed_forward)
        self.gate = nn.Linear(shape.d_model, shape.d_feed_forward) if shape.feed_forward == "glu" else None
        self.outer = nn.Linear(shape.d_feed_forward, shape.d_model)
        self.dropout = nn.Dropout(shape.dropout)
        if shape.initialization == "xavier":
            gain = nn.init.calculate_gain("relu") if shape.feed_forward == "relu" else 1.0
            nn.init.xavier_uniform_(self.inner.weight, gain=gain)
            nn.init.xavier_uniform_(self.outer.weight)
            if self.gate is not None:
                nn.init.xavier_uniform_(self.gate.weight)

    def forward(self, x: Float[Tensor, "B N E"]) -> Float[Tensor, "B N E"]:
        inner = self.activation(self.inner(x))
        if self.gate is not None:
            inner = inner * self.gate(x)
        return self.dropout(self.outer(self.dropout(inner)))


class Residual(nn.Module):
    """The norm and the sum around one part of a layer: x + f(norm(x)) (pre) or norm(x + f(x)) (post)."""

    def __init__(self, shape: BlockShape, dropout: float) -> None:
        super().__init__()
        self.norm, self.pre = make_norm(shape.layer_norm, shape.d_model), shape.norm_placement == "pre"
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, part: Callable[[Tensor], tuple[Tensor, Any]]) -> tuple[Tensor, Any]:
        """The new x, and whatever else the part gives (a penalty, a state)."""
        out, rest = part(self.norm(x) if self.pre else x)
        x = x + self.dropout(out)
        return (x if self.pre else self.norm(x)), rest


class ParallelAttention(nn.Module):
    """Several attentions side by side in one layer, their outputs summed.

    Each has its own output projection, so the sum equals one projection of the joined outputs (Qin et al. 2022,
    table 12). The penalty is the mean over those that have one.
    """

    def __init__(self, attentions: Sequence[Attention]) -> None:
        super().__init__()
        self.attentions = nn.ModuleList(attentions)
        self.orthogonality = any(a.orthogonality for a in attentions)
        self.replaces_feed_forward = any(a.replaces_feed_forward for a in attentions)

    def forward(self, x: Tensor, memory: Tensor | None, mask: Tensor | None, causal: bool) -> tuple[Tensor, Tensor]:
        outs, penalties = zip(*(a(x, memory, mask, causal) for a in self.attentions), strict=True)
        counted = [p for p, a in zip(penalties, self.attentions, strict=True) if a.orthogonality]
        return sum(outs[1:], outs[0]), torch.stack(counted or list(penalties)).mean()

    def init_state(self, batch: int, memory: Tensor | None = None, mask: Tensor | None = None) -> "ParallelState":
        return ParallelState(tuple(a.init_state(batch, memory, mask) for a in self.attentions))

    def step(self, x: Tensor, state: "ParallelState") -> tuple[Tensor, "ParallelState"]:
        outs, states = zip(*(a.step(x, s) for a, s in zip(self.attentions, state.states, strict=True)), strict=True)
        return sum(outs[1:], outs[0]), ParallelState(states)

    def state_size(self, length: int) -> int:
        return sum(a.state_size(length) for a in self.attentions)


@dataclass(frozen=True)
class ParallelState:
    """States of the attentions of one layer."""

    states: tuple[Any, ...]

    def select(self, rows: Tensor) -> "ParallelState":
        return ParallelState(tuple(s.select(rows) for s in self.states))


class Layer(nn.Module):
    """Self-attention, cross-attention where there is one, feed-forward unless the attention replaces it."""

    def __init__(self, shape: BlockShape, attention: nn.Module, cross: Attention | None = None) -> None:
        super().__init__()
        self.attention, self.cross = attention, cross
        self.around_attention = Residual(shape, shape.attention_output_dropout)
        self.around_cross = Residual(shape, shape.attention_output_dropout) if cross is not None else None
        if not attention.replaces_feed_forward:
            self.feed_forward = FeedForward(shape)
            # The feed-forward part drops out its own output.
            self.around_feed_forward = Residual(shape, 0.0)

    def forward(
        self,
        x: Float[Tensor, "B N E"],
        mask: Bool[Tensor, "B N"] | None,
        causal: bool,
        memory: Float[Tensor, "B M E"] | None = None,
        memory_mask: Bool[Tensor, "B M"] | None = None,
    ) -> tuple[Float[Tensor, "B N E"], list[Float[Tensor, ""]]]:
        """The new x, and the penalties of those attentions that have one."""
        x, penalty = self.around_attention(x, lambda y: self.attention(y, None, mask, causal))
        penalties = [penalty] if self.attention.orthogonality else []
        if self.cross is not None:
            x, penalty = self.around_cross(x, lambda y: self.cross(y, memory, memory_mask, False))
            penalties += [penalty] if self.cross.orthogonality else []
        return self._fed_forward(x), penalties

    def init_state(self, batch: int, memory: Tensor | None = None, memory_mask: Tensor | None = None) -> tuple:
        """States of self-attention and cross-attention before the first position."""
        cross = None if self.cross is None else self.cross.init_state(batch, memory, memory_mask)
        return self.attention.init_state(batch), cross

    def step(self, x: Float[Tensor, "B 1 E"], state: tuple) -> tuple[Float[Tensor, "B 1 E"], tuple]:
        """One position, as the same row of the causal forward."""
        own, cross = state
        x, own = self.around_attention(x, lambda y: self.attention.step(y, own))
        if self.cross is not None:
            x, cross = self.around_cross(x, lambda y: self.cross.step(y, cross))
        return self._fed_forward(x), (own, cross)

    def _fed_forward(self, x: Tensor) -> Tensor:
        if self.attention.replaces_feed_forward:
            return x
        return self.around_feed_forward(x, lambda y: (self.feed_forward(y), None))[0]
