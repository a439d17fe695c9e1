"""InLine attention: linear attention that subtracts the mean score instead of dividing by the sum of scores (Han et al.
2024, "Bridging the Divide: Reconsidering Softmax and Linear Attention", equation 5).

    out_i = sum_j w_ij v_j,   w_ij = s_ij - mean over keys of s_i + 1/N,   s_ij = phi(q_i) . phi(k_j) / (N sqrt(D))

Weights sum to 1 and may be negative. With a denominator queries of one direction have the same weights; without it
different queries have different ones, unless their scores differ by a constant. The factor 1 / (N sqrt(D)) is not in
the equation: the published code has it, as a part of phi(q). phi is the identity, as in the published configurations.

Cost O(N D^2). Supports bidirectional, causal (in chunks), cross and step (constant cost per token: running sums of
keys, values and their products). The paper has images only: the causal form, with the mean over keys up to i and N = i, is
ours, and so is cross-attention with the number of keys as N.

Without a denominator an output is of third order in its input: with large projections a norm of queries and keys
(`normalization`) bounds the scores.

Two things are left out. The published module adds a convolution of the values, 3 x 3 pixels wide, whose kernel an MLP
makes from the mean token of the image. A sequence has no such neighbourhood, a causal form would need other kernels at
every position, and the sum has no matrix of weights. So results of the paper, which need it, are not reproduced. The
positions that turn queries and keys are refused: the mean would have to be taken over turned keys.
"""

from dataclasses import replace
from typing import Unpack

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from attnlab.attention.base import AttentionOptions
from attnlab.attention.core.linear_core import (
    FEATURE_MAPS,
    FeatureMap,
    FeatureMapAttention,
    mask_keys,
    sums_of_weights,
)
from attnlab.attention.core.mask_forms import real_lengths
from attnlab.attention.core.tensor_types import KeyMask, Keys, Queries
from attnlab.config.schema import Count, Normalization


class InLine(FeatureMapAttention):
    """Linear attention with the mean score subtracted.

    Args:
        d_model, n_heads, options: as in FeatureMapAttention.
        feature_map: of queries and keys; features may be negative.
        normalization: kind and placement as in FeatureMapAttention; its denominator is ignored.
        chunk_size: as in FeatureMapAttention.
    """

    supports_rotation = False
    cross_equals_self = True

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        feature_map: FeatureMap = "identity",
        normalization: Normalization | None = None,
        chunk_size: Count = 64,
        **options: Unpack[AttentionOptions],
    ) -> None:
        normalization = replace(normalization or Normalization(), denominator=False)
        super().__init__(d_model, n_heads, eps=0.0, normalization=normalization, chunk_size=chunk_size, **options)
        self.feature_map = FEATURE_MAPS[feature_map]

    def query_map(self, q: Queries) -> Float[Tensor, "B H N F"]:
        return self.feature_map(q)

    @property
    def feature_width(self) -> int:
        """A feature of ones after the features of keys: its sums are the sum of values and the number of keys."""
        return self.n_features + 1

    @property
    def sums_of_keys(self) -> bool:
        return True

    def query_features(self, q: Queries, first: int = 0) -> Float[Tensor, "B H N F"]:
        # after a norm too, which would cancel a factor before it
        return super().query_features(q, first) * self.head_width**-0.5

    def key_features(self, k: Keys, mask: KeyMask | None, first: int = 0) -> Float[Tensor, "B H M F2"]:
        return mask_keys(F.pad(super().key_features(k, mask, first), (0, 1), value=1.0), mask)

    def features(
        self, q: Queries, k: Keys, mask: KeyMask | None, causal: bool
    ) -> tuple[Float[Tensor, "B H N F2"], Float[Tensor, "B H M F2"]]:
        q, k = super().features(q, k, mask, causal)
        if causal:
            n_keys = torch.arange(1, k.shape[2] + 1, dtype=q.dtype, device=q.device)[:, None]
        else:
            n_keys = real_lengths(k, mask).clamp(min=1).to(q.dtype)[:, None, None, None]
        return _without_mean(q, sums_of_weights(q, k[..., :-1], causal), n_keys), k

    def read(
        self, q: Float[Tensor, "B H N F"], sums: Float[Tensor, "B H F2 C"], position: int | None
    ) -> Float[Tensor, "B H N D"]:
        n_keys = sums[..., -1:, -1:].clamp(min=1)
        return _without_mean(q, q @ sums[..., :-1, -1:], n_keys) @ sums[..., :-1]


def _without_mean(q: Tensor, total: Tensor, n_keys: Tensor) -> Float[Tensor, "B H N F2"]:
    """Features of queries whose products with [phi(k), 1] are w: from the sum of their scores, before 1/N."""
    return torch.cat((q, 1 - total / n_keys), -1) / n_keys
