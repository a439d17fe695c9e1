"""ALiBi, attention with linear biases (Press et al. 2022, "Train Short, Test Long", section 3).

    score_ij = q_i . k_j / sqrt(D) - m_h |i - j|,   m_h = 2^(-8h / H) for head h = 1 .. H

Nothing is learned and no position is added to embeddings. For H that is no power of two the slopes are those of the
authors' code: of the next lower power of two P, then the first, third, fifth ... of 2 P heads. The paper has the causal
form alone; |i - j| for keys after the query is the authors' symmetric form for encoders (issue 5 of their repository).

Cost O(H N M) time and memory for the scores, as without fused kernels. Any length, also beyond the training data's. The
bidirectional form cannot tell left from right: keys at the same distance before and after a query are alike. No form in
linear time: a feature map has no scores to add to. In self-attention alone.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.attention.core.score_position import distances_between, rows_of_distances
from attnlab.attention.core.tensor_types import Queries
from attnlab.attention.positions.base import InScores, Positions


class AlibiPositions(Positions):
    """ALiBi, in the scores alone."""

    needs = "supports_position_scores"

    def in_scores(self, d_model: int, n_heads: int, initialization: str) -> InScores:
        return LinearBiases(n_heads)


class LinearBiases(InScores):
    """Biases that fall with the distance, by a slope for every head."""

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads

    def added(self, q: Queries, n_keys: int, first: int = 0, causal: bool = False) -> Float[Tensor, "1 H N M"]:
        """-m_h |i - j|"""
        # In float32 at least: half precision cannot represent distances above 256.
        dtype = torch.promote_types(q.dtype, torch.float32)
        distances = distances_between(q.shape[2], n_keys, first, q.device).abs().to(dtype)
        biases = -slopes(self.n_heads, dtype, q.device)[:, None] * distances
        return rows_of_distances(biases.to(q.dtype), n_keys)[None]


def slopes(n_heads: int, dtype: torch.dtype, device: torch.device | None = None) -> Float[Tensor, " H"]:
    """The slope m_h of every head."""
    power = 1 << (n_heads.bit_length() - 1)
    exponents = torch.arange(1, power + 1, dtype=dtype, device=device) * (8 / power)
    if power < n_heads:
        between = torch.arange(1, 2 * (n_heads - power), 2, dtype=dtype, device=device) * (4 / power)
        exponents = torch.cat((exponents, between))
    return torch.exp2(-exponents)
