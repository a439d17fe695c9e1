"""Softmax attention on cosine similarities, with a learned temperature for each head (an example of an attention).

    out_i = sum_j softmax_j(t cos(q_i, k_j)) v_j

Cost O(N^2 D). Supports bidirectional, causal, cross and step (a cache of all keys).
"""

from typing import Annotated, Unpack

import torch
from torch import nn

from attnlab.attention.base import AttentionOptions
from attnlab.attention.core.softmax_core import CachedAttention, kept, softmax_weights
from attnlab.attention.core.tensor_types import Attended, KeyMask, Keys, Queries, Values


class CosineAttention(CachedAttention):
    """Softmax attention on cosine similarities.

    Args:
        d_model, n_heads, options: as in Attention.
        temperature: initial t of every head.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        temperature: Annotated[float, "(0, inf)"] = 10.0,
        **options: Unpack[AttentionOptions],
    ) -> None:
        super().__init__(d_model, n_heads, **options)
        self.temperature = nn.Parameter(torch.full((n_heads, 1, 1), temperature))

    def attend(self, q: Queries, k: Keys, v: Values, mask: KeyMask | None, causal: bool) -> Attended:
        q, k = (x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6) for x in (q, k))
        scores = self.temperature.to(q.dtype) * q @ k.transpose(-1, -2)
        return softmax_weights(scores, kept(scores, mask, causal)) @ v
