"""Forgetting attention: softmax attention with forget gates (Lin et al. 2025, "Forgetting Transformer", section 3).

    out_i = sum_(j <= i) softmax_j(q_i . k_j / sqrt(D) + sum_(l = j+1 .. i) log f_l) v_j,   f_t = sigmoid(w . x_t + b)

with one gate a head and position, and no other positions. Cost O(N^2 D) time and O(N^2) memory. Supports causal and
step (a cache of keys, values and gates; a step costs O(position)). Not bidirectional: gates are in the order of the
sequence. Not cross: the positions of two sequences do not correspond. Of the paper's "Pro" layer the norm of queries
and keys is `normalization`, the output gate an option; its shift of keys and values is left out.
"""

from typing import Unpack

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from attnlab.attention.base import AttentionOptions
from attnlab.attention.core.decay_gates import wide
from attnlab.attention.core.prefix_sums import rows_before
from attnlab.attention.core.qk_norm import norms_of
from attnlab.attention.core.softmax_core import CachedAttention, kept, softmax_weights
from attnlab.attention.core.sum_precision import full_precision
from attnlab.attention.core.tensor_types import Attended, AttentionWeights, KeyMask, Memory, Queries, ScoreHook, Values
from attnlab.config.schema import Normalization, Probability
from attnlab.kernels.dropout import dropped
from attnlab.kernels.linear_map import LinearMap


class ForgettingAttention(CachedAttention):
    """Softmax attention with forget gates. Keys have one more column: the logarithms of the gates.

    Args:
        d_model, n_heads, options: as in Attention.
        dropout: on the attention weights, in training.
        normalization: kind of norm of queries and keys; None = none. There is no feature map and no other denominator.
        output_gate: factor sigmoid(W x) of the output.
    """

    supports_bidirectional = False
    supports_cross = False
    reads_normalization = ("kind", "eps", "only")

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        dropout: Probability = 0.0,
        normalization: Normalization | None = None,
        output_gate: bool = False,
        **options: Unpack[AttentionOptions],
    ) -> None:
        super().__init__(d_model, n_heads, **options)
        self.dropout = dropout
        self.q_norm, self.k_norm = norms_of(normalization or Normalization(), self.head_width)
        self.forget_proj = LinearMap(d_model, n_heads)
        self.gate_proj = LinearMap(d_model, d_model, bias=False) if output_gate else None

    def queries(self, x: Float[Tensor, "B N E"]) -> Queries:
        return self.q_norm(super().queries(x))

    def keys_values(self, source: Memory) -> tuple[Float[Tensor, "B H M Q"], Float[Tensor, "B H M C"]]:
        """Keys with the logarithms of the gates, and values."""
        k, v = super().keys_values(source)
        return torch.cat((self.k_norm(k), F.logsigmoid(wide(self.split_heads(self.forget_proj(source))))), dim=-1), v

    def key_heads(self, k: Float[Tensor, "B H M Q"]) -> Float[Tensor, "B H M D"]:
        return k[..., :-1]

    def attend(
        self,
        q: Queries,
        k: Float[Tensor, "B H M Q"],
        v: Values,
        mask: KeyMask | None,
        causal: bool,
    ) -> Attended:
        dtype = v.dtype
        with full_precision(q, k, v) as (q, k, v):
            weights = self._weights(q, k, mask, None)
            return (dropped(weights, self.dropout, self.training) @ v).to(dtype)

    def weights(
        self,
        q: Queries,
        k: Float[Tensor, "B H M Q"],
        mask: KeyMask | None,
        causal: bool,
        score_hook: ScoreHook | None = None,
    ) -> AttentionWeights:
        """Scores have the gates in them."""
        dtype = q.dtype
        with full_precision(q, k) as (q, k):
            return self._weights(q, k, mask, score_hook).to(dtype)

    def _weights(self, q: Tensor, k: Tensor, mask: Tensor | None, score_hook: ScoreHook | None) -> AttentionWeights:
        """Of the last queries, up to all; the last one is at the position of the last key."""
        k, gates = k[..., :-1], k[..., -1:]
        # In float64: a difference of two sums of a long past loses the digits of a short distance.
        gates = gates.double()
        total = (rows_before(gates) + gates).transpose(-1, -2)
        n_queries = q.shape[2]
        forgotten = (total[..., -n_queries:].transpose(-1, -2) - total).to(q.dtype)
        scores = q @ k.transpose(-1, -2) * self.head_width**-0.5 + forgotten
        scores = scores if score_hook is None else score_hook(scores)
        return softmax_weights(scores, kept(scores, mask, n_queries > 1))

    def project_output(self, out: Float[Tensor, "B H N C"], x: Float[Tensor, "B N E"]) -> Float[Tensor, "B N E"]:
        joined = self.join_heads(out)
        return self.out_proj(joined if self.gate_proj is None else joined * self.gate_proj(x).sigmoid())

    def state_size(self, length: int) -> int:
        return super().state_size(length) + self.n_heads * length
