"""Softmax attention in a window (an example of an attention that sees a part of the sequence).

    out_i = sum_j softmax_j(q_i . k_j / sqrt(D)) v_j, over the j with |i - j| < window

Cost O(N^2 D) as written. Supports bidirectional, causal and step; no cross-attention, as a memory has other positions.
"""

from typing import Annotated, Unpack

import torch

from attnlab.attention.base import AttentionOptions
from attnlab.attention.core.softmax_core import CachedAttention, kept, softmax_weights
from attnlab.attention.core.tensor_types import Attended, KeyMask, Keys, Queries, Values


class LocalAttention(CachedAttention):
    """Softmax attention in a window.

    Args:
        d_model, n_heads, options: as in Attention.
        window: positions that a causal query sees, up to its own; a bidirectional one sees as many on its right.
    """

    supports_cross = False

    def __init__(
        self, d_model: int, n_heads: int, *, window: Annotated[int, "[1, inf)"] = 4, **options: Unpack[AttentionOptions]
    ) -> None:
        super().__init__(d_model, n_heads, **options)
        self.window = self.causal_reach = window

    def attend(self, q: Queries, k: Keys, v: Values, mask: KeyMask | None, causal: bool) -> Attended:
        scores = q @ k.transpose(-1, -2) * self.head_width**-0.5
        rows, columns = (torch.arange(x.shape[2], device=q.device) for x in (q, k))
        near = (rows[:, None] - columns).abs() < self.window
        return softmax_weights(scores, kept(scores, mask, causal) & near) @ v

    def attend_last(self, q: Queries, k: Keys, v: Values, mask: KeyMask | None, position: int) -> Attended:
        # the window ends at the last key
        return self.attend(q, k[:, :, -self.window :], v[:, :, -self.window :], mask, False)
