"""Softmax attention: softmax(Q K^T / sqrt(D)) V (Vaswani et al. 2017, section 3.2; "vanilla" in both papers).

Cost O(N M D) time, with torch's fused kernels where possible. Supports bidirectional, causal, cross and step; decoding
keeps all keys and values, so a step costs O(position). With relative positions (self-attention only) it is the
"relative" attention of Csordas et al. 2021, after Dai et al. 2019, and needs O(N M) memory.
"""

from typing import Unpack

from jaxtyping import Float
from torch import Tensor

from attnlab.attention.base import AttentionOptions
from attnlab.attention.core.score_position import RelativePositions
from attnlab.attention.core.softmax_core import (
    CachedAttention,
    fused_softmax,
    kept,
    scaled_dot_weights,
    softmax_weights,
)
from attnlab.attention.core.tensor_types import Attended, AttentionWeights, KeyMask, Keys, Queries, ScoreHook, Values
from attnlab.config.schema import Probability
from attnlab.kernels.dropout import dropped


class SoftmaxAttention(CachedAttention):
    """Softmax attention.

    Args:
        d_model, n_heads, options: as in Attention.
        dropout: on the attention weights, in training.
        relative_positions: add Transformer-XL scores (self-attention only).
    """

    supports_relative_positions = True
    cross_equals_self = True

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        dropout: Probability = 0.0,
        relative_positions: bool = False,
        **options: Unpack[AttentionOptions],
    ) -> None:
        super().__init__(d_model, n_heads, **options)
        self.dropout = dropout
        self.positions = (
            RelativePositions(d_model, n_heads, options.get("initialization", "torch")) if relative_positions else None
        )

    def attend(self, q: Queries, k: Keys, v: Values, mask: KeyMask | None, causal: bool) -> Attended:
        if self.positions is None:
            return fused_softmax(q, k, v, mask, causal, self.dropout if self.training else 0.0)
        return self._drop(self._relative_weights(self.positions, q, k, mask, causal)) @ v

    def attend_last(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, position: int
    ) -> Float[Tensor, "B H 1 C"]:
        if self.positions is None:
            return self.attend(q, k, v, mask, False)
        return self._drop(self._relative_weights(self.positions, q, k, mask, False, first_query=position)) @ v

    def weights(
        self, q: Queries, k: Keys, mask: KeyMask | None, causal: bool, score_hook: ScoreHook | None = None
    ) -> AttentionWeights:
        if self.positions is None:
            return scaled_dot_weights(q, k, mask, causal, score_hook)
        return self._relative_weights(self.positions, q, k, mask, causal, score_hook)

    def _relative_weights(
        self,
        positions: RelativePositions,
        q: Tensor,
        k: Tensor,
        mask: Tensor | None,
        causal: bool,
        score_hook: ScoreHook | None = None,
        first_query: int = 0,
    ) -> Tensor:
        # Explicit weights: torch's fused kernels have no gradient with respect to their bias under vmap.
        scores = (q + positions.content_bias) @ k.transpose(-1, -2)
        scores = (scores + positions.scores(q, k.shape[2], first_query)) * self.head_width**-0.5
        scores = scores if score_hook is None else score_hook(scores)
        return softmax_weights(scores, kept(scores, mask, causal))

    def _drop(self, weights: Tensor) -> Tensor:
        return dropped(weights, self.dropout, self.training)
