"""Softmax attention: fused kernels, explicit weights, and incremental decoding with a cache of all keys."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnlab.attention.base import Attention, State
from attnlab.attention.core.mask_forms import bias_of, keys_of, without_any_key
from attnlab.attention.core.tensor_types import AttentionWeights, KeyMask, Keys, Memory, Queries, ScoreHook
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


def scaled_dot_weights(
    q: Queries, k: Keys, mask: KeyMask | None, causal: bool, score_hook: ScoreHook | None
) -> AttentionWeights:
    """The weights of `fused_softmax` as a matrix; for `score_hook` see `Attention.weights`."""
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    scores = scores if score_hook is None else score_hook(scores)
    return softmax_weights(scores, kept(scores, mask, causal))


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
        return 2 * self.d_model * length
