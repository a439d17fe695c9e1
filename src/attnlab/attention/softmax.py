"""Softmax attention (Vaswani et al. 2017, section 3.2; "vanilla" in both papers).

    out_i = sum_j softmax_j(q_i . k_j / sqrt(D)) v_j

Cost O(N M D) time, with torch's fused kernels where possible. Supports bidirectional, causal, cross and step; decoding
keeps all keys and values, so a step costs O(position). With relative positions it is the "relative" attention of
Csordas et al. 2021, after Dai et al. 2019, and needs O(N M) memory (attention/positions).
"""

from typing import Unpack

from jaxtyping import Float
from torch import Tensor

from attnlab.attention.base import AttentionOptions
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
    """

    supports_position_scores = True
    supports_rotation = True
    cross_equals_self = True

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

    def attend(self, q: Queries, k: Keys, v: Values, mask: KeyMask | None, causal: bool) -> Attended:
        return self._attended(q, self.cached_keys(k, 0), v, mask, causal)

    def attend_last(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, position: int
    ) -> Float[Tensor, "B H 1 C"]:
        return self._attended(q, k, v, mask, False, position)

    def cached_keys(self, k: Keys, first: int) -> Keys:
        return k if self.positions is None else self.positions.keys(k, first)

    def weights(
        self, q: Queries, k: Keys, mask: KeyMask | None, causal: bool, score_hook: ScoreHook | None = None
    ) -> AttentionWeights:
        q, added = self._queries_added(q, k.shape[2])
        return weights_of(q, self.cached_keys(k, 0), added, mask, causal, score_hook)

    def _attended(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, first: int = 0) -> Tensor:
        """With keys that have their positions already."""
        q, added = self._queries_added(q, k.shape[2], first)
        if added is None:
            return fused_softmax(q, k, v, mask, causal, self.dropout if self.training else 0.0)
        # Explicit weights: the scores of the positions are a bias that needs gradients.
        return dropped(weights_of(q, k, added, mask, causal), self.dropout, self.training) @ v

    def _queries_added(self, q: Tensor, n_keys: int, first: int = 0) -> tuple[Tensor, Tensor | None]:
        """Queries with positions, and what is added to their products with the keys."""
        if self.positions is None:
            return q, None
        return self.positions.queries(q, first), self.positions.added(q, n_keys, first)


def weights_of(
    q: Tensor, k: Tensor, added: Tensor | None, mask: Tensor | None, causal: bool, score_hook: ScoreHook | None = None
) -> Tensor:
    """softmax((q . k + added) / sqrt(D))"""
    if added is None:
        return scaled_dot_weights(q, k, mask, causal, score_hook)
    scores = (q @ k.transpose(-1, -2) + added) * q.shape[-1] ** -0.5
    scores = scores if score_hook is None else score_hook(scores)
    return softmax_weights(scores, kept(scores, mask, causal))
