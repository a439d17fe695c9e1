"""Softmax attention: fused kernels, explicit weights, positions in scores, and incremental decoding with a cache of all
keys."""

from dataclasses import dataclass
from typing import Unpack

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnlab.attention.base import Attention, AttentionOptions, State
from attnlab.attention.core.mask_forms import bias_of, keys_of, without_any_key
from attnlab.attention.core.tensor_types import (
    Attended,
    AttentionWeights,
    KeyMask,
    Keys,
    Memory,
    Queries,
    ScoreHook,
    Values,
)
from attnlab.config.schema import Probability
from attnlab.kernels.dropout import dropped
from attnlab.kernels.fused_attention import fused_attention


def fused_softmax(
    q: Float[Tensor, "*heads N D"],
    k: Float[Tensor, "*heads M D"],
    v: Float[Tensor, "*heads M C"],
    mask: KeyMask | None,
    causal: bool,
    dropout: float = 0.0,
) -> Float[Tensor, "*heads N C"]:
    """softmax(q k^T / sqrt(D)) v by torch's fused kernels; the first axes are B, H."""
    # Masks are prefixes: a real query never sees padded keys, so the fused causal kernel needs no mask.
    keep = None if mask is None or causal else keys_of(mask)
    return softmax_attention(q, k, v, keep, causal, dropout)


def softmax_attention(
    q: Float[Tensor, "*heads N D"],
    k: Float[Tensor, "*heads M D"],
    v: Float[Tensor, "*heads M C"],
    keep: Bool[Tensor, "*#heads #N M"] | None,
    causal: bool,
    dropout: float,
) -> Float[Tensor, "*heads N C"]:
    """`fused_softmax` with any mask; with dropout on a CPU from explicit weights.

    torch has no fused kernel with dropout on a CPU: it computes the weights too, with slower masks and dropout.
    """
    if q.device.type != "cpu" or not dropout:
        return fused_attention(q, k, v, keep, causal, dropout)
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
    if causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
        keep = seen if keep is None else seen & keep
    weights = scores.softmax(-1) if keep is None else softmax_weights(scores, keep)
    return dropped(weights, dropout) @ v


def fused_with_bias(
    q: Queries,
    k: Keys,
    v: Values,
    added: Float[Tensor, "#B #H N M"],
    mask: KeyMask | None,
    causal: bool,
    dropout: float,
) -> Attended:
    """softmax(q k^T / sqrt(D) + added) v by fused kernels: at length 1,024 in half the time (one CPU thread)."""
    if causal:
        # As in `fused_softmax` padding needs no mask, so that the bias has no axis of the batch.
        future = torch.ones(added.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        return fused_attention(q, k, v, added.masked_fill(future, -torch.inf), False, dropout)
    if mask is None:
        return fused_attention(q, k, v, added, False, dropout)
    keep = keys_of(mask)
    blind = without_any_key(keep)
    out = fused_attention(q, k, v, added + bias_of(keep, added.dtype), False, dropout)
    return out if blind is None else out.masked_fill(blind, 0.0)


def kept(scores: Float[Tensor, "B H N M"], mask: KeyMask | None, causal: bool) -> Bool[Tensor, "#B 1 #N M"]:
    """Which keys each query may see."""
    real = None if mask is None else keys_of(mask)
    if not causal and real is not None:
        return real
    keep = torch.ones(scores.shape[-2:] if causal else scores.shape[-1:], dtype=torch.bool, device=scores.device)
    keep = (keep.tril() if causal else keep[None])[None, None]
    return keep if real is None else keep & real


def softmax_weights(scores: Float[Tensor, "*rest M"], keep: Bool[Tensor, "*#rest M"]) -> Float[Tensor, "*rest M"]:
    """Softmax over kept keys; zeros for a query without any."""
    # A query without any key sees all of them at first, so that it gives 0, not NaN. The bias has the shape of `keep`,
    # which is often smaller than the scores, and needs no backward pass.
    weights, blind = (scores + bias_of(keep, scores.dtype)).softmax(-1), without_any_key(keep)
    return weights if blind is None else weights.masked_fill(blind, 0.0)


@dataclass(frozen=True)
class KeyValueState(State):
    """Keys and values of the tokens read so far, or of the memory, with its mask; heads may share values."""

    k: Float[Tensor, "B H M K"]
    v: Float[Tensor, " B #H M C"]
    mask: Bool[Tensor, "B M"] | None
    cross: bool


class CachedAttention(Attention[KeyValueState]):
    """Base class with incremental decoding by a growing cache of keys and values: a step costs O(position)."""

    supports_step = True

    def attend_last(
        self,
        q: Float[Tensor, "B H 1 Q"],
        k: Float[Tensor, "B H M K"],
        v: Float[Tensor, " B #H M C"],
        mask: KeyMask | None,
        position: int,
    ) -> Float[Tensor, "B H 1 C"]:
        """The query at `position` against all keys so far, or all of a memory."""
        return self.attend(q, k, v, mask, False)

    def cached_keys(self, k: Keys, first: int) -> Keys:
        """Keys as the cache holds them, from position `first` on; with their positions, where they turn keys."""
        return k

    def init_state(self, batch: int, memory: Memory | None = None, mask: KeyMask | None = None) -> KeyValueState:
        if memory is not None:
            k, v = self.memory_keys_values(memory, mask)
            return KeyValueState(0, k, v, mask, cross=True)
        return KeyValueState(0, *self.no_keys_values(batch), None, cross=False)

    def step(self, x: Float[Tensor, "B 1 E"], state: KeyValueState) -> tuple[Float[Tensor, "B 1 E"], KeyValueState]:
        q, k, v = self.queries(x), state.k, state.v
        if not state.cross:
            new_k, new_v = self.keys_values(x)
            k = torch.cat((k, self.cached_keys(new_k, state.position)), dim=2)
            v = torch.cat((v, new_v), dim=2)
        out = self.attend_last(q, k, v, state.mask, state.position)
        return self.project_output(out, x), KeyValueState(state.position + 1, k, v, state.mask, state.cross)

    def state_after(self, x: Float[Tensor, "B N E"]) -> KeyValueState:
        k, v = self.keys_values(x)
        return KeyValueState(x.shape[1], self.cached_keys(k, 0), v, None, cross=False)

    def state_size(self, length: int) -> int:
        return 2 * self.inner_width * length


class ScaledDotAttention(CachedAttention):
    """Base class with softmax(q k^T / sqrt(D) + added) v, queries and keys at their positions (`positions.base`).

    Args:
        d_model, n_heads, options: as in Attention.
        dropout: on the attention weights, in training.
    """

    supports_position_scores = True
    supports_rotation = True

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        dropout: Probability = 0.0,
        **options: Unpack[AttentionOptions],
    ) -> None:
        super().__init__(d_model, n_heads, **options)
        self.dropout = dropout

    def attend(
        self,
        q: Queries,
        k: Keys,
        v: Float[Tensor, " B #H M C"],
        mask: KeyMask | None,
        causal: bool,
    ) -> Attended:
        q, added = self._queries_added(q, k.shape[2], 0, causal)
        return self._read(q, self.cached_keys(k, 0), v, mask, causal, added)

    def attend_last(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, position: int
    ) -> Float[Tensor, "B H 1 C"]:
        # No key of the cache is in the future: positions as in the causal form, and nothing to mask.
        q, added = self._queries_added(q, k.shape[2], position, True)
        return self._read(q, k, v, mask, False, added)

    def cached_keys(self, k: Keys, first: int) -> Keys:
        return k if self.positions is None else self.positions.keys(k, first)

    def weights(
        self, q: Queries, k: Keys, mask: KeyMask | None, causal: bool, score_hook: ScoreHook | None = None
    ) -> AttentionWeights:
        q, added = self._queries_added(q, k.shape[2], 0, causal)
        return self._weights(q, self.cached_keys(k, 0), mask, causal, added, score_hook)

    def _queries_added(self, q: Tensor, n_keys: int, first: int, causal: bool) -> tuple[Tensor, Tensor | None]:
        """Queries with positions, and what is added to their scaled products with the keys."""
        if self.positions is None:
            return q, None
        return self.positions.queries(q, first), self.positions.added(q, n_keys, first, causal)

    def _read(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, added: Tensor | None) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        if added is None:
            return fused_softmax(q, k, v.expand(-1, q.shape[1], -1, -1), mask, causal, dropout)
        if not added.requires_grad and (q.device.type != "cpu" or not dropout):
            return fused_with_bias(q, k, v.expand(-1, q.shape[1], -1, -1), added, mask, causal, dropout)
        # Explicit weights where what is added needs gradients: the fused kernels of a CPU have none for it.
        return dropped(self._weights(q, k, mask, causal, added), dropout) @ v

    def _weights(
        self,
        q: Tensor,
        k: Tensor,
        mask: Tensor | None,
        causal: bool,
        added: Tensor | None,
        score_hook: ScoreHook | None = None,
    ) -> Tensor:
        scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
        scores = scores if added is None else scores + added
        scores = scores if score_hook is None else score_hook(scores)
        return softmax_weights(scores, kept(scores, mask, causal))
