"""Softmax attention: softmax(Q K^T / sqrt(D)) V (Vaswani et al. 2017, section 3.2; "vanilla" in both papers).

Cost O(N M D) time; torch's fused kernels where they apply. Supports bidirectional, causal, cross and step; decoding
keeps all keys and values, so a step costs O(position).
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from attnlab.attention.base import Attention, Initialization, State
from attnlab.attention.position import RelativePositions


@dataclass(frozen=True)
class SoftmaxState(State):
    """Keys and values of the tokens read so far, or of the memory (then with its mask)."""

    k: Float[Tensor, "B H M D"]
    v: Float[Tensor, "B H M D"]
    mask: Bool[Tensor, "B M"] | None
    cross: bool


class SoftmaxAttention(Attention):
    """Softmax attention.

    Args:
        d_model, n_heads, bias, initialization, orthogonality: as in Attention.
        dropout: on the attention weights, in training.
        relative_positions: add Transformer-XL scores (self-attention only).
    """

    supports_relative_positions = True
    supports_orthogonality = True

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        bias: bool = True,
        dropout: float = 0.0,
        relative_positions: bool = False,
        orthogonality: bool = False,
        initialization: Initialization = "torch",
    ) -> None:
        super().__init__(d_model, n_heads, bias=bias, initialization=initialization, orthogonality=orthogonality)
        self.dropout = dropout
        self.positions = RelativePositions(d_model, n_heads) if relative_positions else None

    def attend(
        self,
        q: Float[Tensor, "B H N D"],
        k: Float[Tensor, "B H M D"],
        v: Float[Tensor, "B H M D"],
        mask: Bool[Tensor, "B M"] | None,
        causal: bool,
    ) -> Float[Tensor, "B H N D"]:
        if self.positions is not None:
            return self._attend_relative(q, k, v, mask, causal)
        dropout = self.dropout if self.training else 0.0
        if causal:
            # Masks are prefixes: a real query never sees padded keys, so the fused causal kernel needs no mask.
            return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        keep = None if mask is None else mask[:, None, None, :]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=keep, dropout_p=dropout)

    def _attend_relative(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, first_query: int = 0
    ) -> Tensor:
        # Written out: torch's fused kernels cannot be differentiated by their bias under vmap.
        scores = (q + self.positions.content_bias) @ k.transpose(-1, -2)
        scores = (scores + self.positions.scores(q, k.shape[2], first_query)) * self.head_width**-0.5
        keep = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
        keep = keep.tril() if causal else keep
        keep = keep if mask is None else keep & mask[:, None, None, :]
        # The smallest number instead of -inf, and zeros after: a query without any key gives 0, not NaN.
        weights = scores.masked_fill(~keep, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(~keep, 0.0)
        return F.dropout(weights, self.dropout, self.training) @ v

    def init_state(
        self, batch: int, memory: Float[Tensor, "B M E"] | None = None, mask: Bool[Tensor, "B M"] | None = None
    ) -> SoftmaxState:
        if memory is not None:
            k, v = self.memory_keys_values(memory, mask)
            return SoftmaxState(0, k, v, mask, cross=True)
        empty = self.q_proj.weight.new_zeros(batch, self.n_heads, 0, self.head_width)
        return SoftmaxState(0, empty, empty, None, cross=False)

    def step(self, x: Float[Tensor, "B 1 E"], state: SoftmaxState) -> tuple[Float[Tensor, "B 1 E"], SoftmaxState]:
        q, k, v = self.split_heads(self.q_proj(x)), state.k, state.v
        if not state.cross:
            new_k, new_v = self.keys_values(x)
            k, v = torch.cat((k, new_k), dim=2), torch.cat((v, new_v), dim=2)
        if self.positions is None:
            out = self.attend(q, k, v, state.mask, causal=False)
        else:
            out = self._attend_relative(q, k, v, state.mask, causal=False, first_query=state.position)
        return self.out_proj(self.join_heads(out)), SoftmaxState(state.position + 1, k, v, state.mask, state.cross)

    def state_size(self, length: int) -> int:
        return 2 * self.n_heads * self.head_width * length
