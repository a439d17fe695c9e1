"""Rotary positions (Su et al. 2021, section 3.2.2): queries and keys are rotated by angles that grow with the position.

    score_ij = (R_i q_i) . (R_j k_j) / sqrt(D),   R_n turns columns c and c + D/2 as a pair by n 10000^(-2c / D)

so a score depends on the distance i - j alone. The pairs are halves, as in GPT-NeoX and Llama; in the paper they are
neighbours (columns 2c and 2c + 1), which is the same up to the order of the columns. Of an odd width the last column
stays. With a feature map the features are rotated, and the denominator is not, as in the paper (section 3.3):

    out_i = sum_j (R_i phi(q_i)) . (R_j phi(k_j)) v_j / (sum_j phi(q_i) . phi(k_j) + eps)

Weights of a feature map may be negative then. In self-attention alone: distances between two sequences mean nothing.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.attention.core.score_position import rotated_halves
from attnlab.attention.positions.base import InScores, Positions


class RotaryPositions(Positions):
    """Rotary positions, in the scores alone."""

    needs = "supports_rotation"

    @classmethod
    def misfit(cls, d_model: int, n_heads: int) -> str:
        if d_model // n_heads >= 2:
            return ""
        return f"a head has one column ({d_model} for n_heads={n_heads}); expected at least 2 to rotate"

    def in_scores(self, d_model: int, n_heads: int, initialization: str) -> InScores:
        if misfit := self.misfit(d_model, n_heads):
            raise ValueError(f"rotary positions: {misfit}")
        return Rotation()


class Rotation(InScores):
    """Rotation of queries and keys (or their features) by their positions."""

    def queries(self, q: Float[Tensor, "B H N D"], first: int = 0) -> Float[Tensor, "B H N D"]:
        even = q.shape[-1] // 2 * 2
        rotated = rotated_halves(q[..., :even], first)
        return rotated if even == q.shape[-1] else torch.cat((rotated, q[..., even:]), dim=-1)

    def keys(self, k: Float[Tensor, "B H M D"], first: int = 0) -> Float[Tensor, "B H M D"]:
        return self.queries(k, first)
