"""Compositional attention (Mittal et al. 2022, arXiv 2110.09419): positions (searches) and values
(retrievals) are chosen independently.

    O_sr = softmax(Q_s K_s^T / sqrt(D)) V_r             search s = 1..S (heads), retrieval r = 1..R (shared by all s)
    a_sr = softmax over r of q_s . k_sr / sqrt(W)       q_s = x W_q,s and k_sr = O_sr W_k, both of width W
    out  = [sum_r a_sr O_sr]_s W_out

Cost O(N M (D + R D)) per search; the R results of a search come from one softmax over concatenated values, fused where
no positions add to scores. Supports bidirectional, causal, cross and step, and positions in the scores of the searches:
the retrievals of a query use none. Decoding keeps the keys of every search and the R values they share; a step costs
O(position).

`scorer: mlp` is the published alternative to the dot product: one linear layer on [q_s, O_sr]. The terms of q_s and of
the bias are the same for every r and cancel in the softmax, so the input has no influence on the retrieval; the bias of
k_sr in the dot product cancels too. These parameters are kept as published.

What a comparison has to know:

    parameters  with R = 1 every retrieval weight is 1: multi-query attention. The retrieval stage then never gets a
                gradient, nor does its query part with `mlp`, but both are counted: 14 % (dot, R = 1) and 13 % (mlp,
                R = 2) of the mechanism's parameters at width 256 with 4 heads.
    values      the searches share R D columns of values, where other mechanisms have S D: half as many at R = 2, S = 4.
                The orthogonality loss takes the R retrievals as its heads.
    start       retrieval weights begin near 1 / R: between 0.43 and 0.57 at R = 2 (dot, width 256, 4 heads, 26
                positions of normal inputs, 4 starts), so that a search begins as the mean of its results.
    dropout     one draw for all R results of a search.
"""

from typing import Literal, Unpack

import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.attention.base import AttentionOptions
from attnlab.attention.core.softmax_core import ScaledDotAttention
from attnlab.attention.core.sum_precision import full_precision
from attnlab.attention.core.tensor_types import Memory
from attnlab.config.schema import Count, Probability
from attnlab.kernels.linear_map import LinearMap


class CompositionalAttention(ScaledDotAttention):
    """Compositional attention; its searches are the heads.

    Values (B, 1, M, R D) contain all retrievals, once for all searches; `weights` are those of the searches. The
    projections of the retrieval stage have biases and PyTorch's default weights, whatever `bias` and `initialization`
    are, as in both published versions.

    Args:
        d_model, n_heads, options: as in Attention.
        retrievals: number of retrievals, each with a value matrix, R.
        scorer: score of a result: dot product, or a linear layer (mlp).
        retrieval_width: width of the queries and keys of a retrieval, W.
        dropout: on the search weights, in training (the published code has none).
    """

    cross_equals_self = True

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        retrievals: Count = 2,
        scorer: Literal["dot", "mlp"] = "dot",
        retrieval_width: Count = 32,
        dropout: Probability = 0.0,
        **options: Unpack[AttentionOptions],
    ) -> None:
        # Before the base class makes the projections: their sizes depend on it.
        self.retrievals = retrievals
        super().__init__(d_model, n_heads, dropout=dropout, **options)
        self.scorer, self.retrieval_width = scorer, retrieval_width
        self.retrieval_query_proj = LinearMap(d_model, n_heads * retrieval_width)
        if scorer == "dot":
            self.retrieval_key_proj = LinearMap(self.head_width, retrieval_width)
        else:
            self.score_proj = LinearMap(retrieval_width + self.head_width, 1)

    def make_projections(self, d_model: int, bias: bool) -> None:
        self.q_proj, self.k_proj, self.out_proj = (LinearMap(d_model, d_model, bias=bias) for _ in range(3))
        self.v_proj = LinearMap(d_model, self.retrievals * self.head_width, bias=bias)

    def keys_values(self, source: Memory) -> tuple[Float[Tensor, "B S M D"], Float[Tensor, "B 1 M RD"]]:
        """Keys of every search, and the values of all retrievals, which the searches share."""
        return self.split_heads(self.k_proj(source)), self.v_proj(source).unsqueeze(1)

    def value_heads(self, v: Float[Tensor, "B 1 M RD"]) -> Float[Tensor, "B R M D"]:
        return v.squeeze(1).unflatten(-1, (self.retrievals, -1)).transpose(1, 2)

    def retrieval_weights(
        self, results: Float[Tensor, "B S N R D"], x: Float[Tensor, "B N E"]
    ) -> Float[Tensor, "B S N R"]:
        """a_sr: weights of the retrievals, by search."""
        query = self.split_heads(self.retrieval_query_proj(x)).unsqueeze(-2)
        if self.scorer == "mlp":
            pairs = torch.cat((query.expand(-1, -1, -1, self.retrievals, -1), results), dim=-1)
            return self.score_proj(pairs).squeeze(-1).softmax(-1)
        with full_precision(query, self.retrieval_key_proj(results)) as (query, key):
            return ((query * key).sum(-1) * self.retrieval_width**-0.5).softmax(-1)

    def project_output(self, out: Float[Tensor, "B S N RD"], x: Float[Tensor, "B N E"]) -> Float[Tensor, "B N E"]:
        results = out.unflatten(-1, (self.retrievals, -1))
        with full_precision(self.retrieval_weights(results, x), results) as (weights, wide):
            taken = (weights.unsqueeze(-1) * wide).sum(-2).to(out.dtype)
        return self.out_proj(self.join_heads(taken))

    def state_size(self, length: int) -> int:
        return (self.d_model + self.retrievals * self.head_width) * length
