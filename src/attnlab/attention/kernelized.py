"""Kernelized attention: a Gaussian kernel instead of softmax (Chen et al. 2021, arXiv 2111.00035, who approximate it
by Skyformer).

    out_i = sum_j exp(-|q_i - k_j|^2 / (2 sqrt(D))) v_j

These are softmax's exponentials divided by the factors that grow with the lengths of queries and keys, and without a
denominator: weights are between
0 and 1 but need not sum to 1, so an output grows with the number of keys near its query. Cost O(N M D) time and O(N M)
memory for the weights. Supports bidirectional, causal, cross and step; decoding keeps all keys and values, so a step
costs O(position). The published code has the bidirectional form only.
"""

from typing import Unpack

import torch
from torch import Tensor

from attnlab.attention.base import AttentionOptions
from attnlab.attention.core.softmax_core import CachedAttention, kept
from attnlab.attention.core.sum_precision import full_precision, saturated
from attnlab.attention.core.tensor_types import Attended, AttentionWeights, KeyMask, Keys, Queries, ScoreHook, Values
from attnlab.config.schema import Probability
from attnlab.kernels.dropout import dropped


class KernelizedAttention(CachedAttention):
    """Attention with a Gaussian kernel.

    Args:
        d_model, n_heads, options: as in Attention.
        dropout: on the weights, in training.
    """

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
        dtype = v.dtype
        with full_precision(q, k, v) as (q, k, v):
            weights = dropped(self._kernel(q, k, mask, causal, None), self.dropout, self.training)
            return saturated(weights @ v, dtype)

    def weights(
        self, q: Queries, k: Keys, mask: KeyMask | None, causal: bool, score_hook: ScoreHook | None = None
    ) -> AttentionWeights:
        """Scores are the exponents -|q_i - k_j|^2 / (2 sqrt(D))."""
        dtype = q.dtype
        with full_precision(q, k) as (q, k):
            return self._kernel(q, k, mask, causal, score_hook).to(dtype)

    def _kernel(self, q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, score_hook: ScoreHook | None) -> Tensor:
        # (a - b)^2 is expanded, so that no N x M x D tensor is needed. With almost equal long vectors rounding can make
        # scores positive.
        q, k = q * self.head_width**-0.25, k * self.head_width**-0.25
        lengths = q.square().sum(-1)[..., :, None] + k.square().sum(-1)[..., None, :]
        scores = (q @ k.transpose(-1, -2) - 0.5 * lengths).clamp(max=0.0)
        scores = scores if score_hook is None else score_hook(scores)
        return scores.masked_fill(~kept(scores, mask, causal), -torch.inf).exp()
