"""Relative positions of Transformer-XL (Dai et al. 2019, section 3.3), as Csordas et al. 2021 use them on SCAN.

    score_ij = (q_i + u) . k_j / sqrt(D) + (q_i + w) . W r_(i-j) / sqrt(D)

with r the sinusoid of the signed distance, W a learned map, and u, w learned biases per head that start at 0. The code
of Csordas et al. takes the distance j - i: its W has the columns of the sines (the even ones) negated.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.attention.core.score_position import sinusoid
from attnlab.attention.core.tensor_types import Queries
from attnlab.attention.positions.base import InScores, Positions
from attnlab.kernels.linear_map import LinearMap


class RelativePositions(Positions):
    """Relative positions, in the scores alone."""

    needs = "supports_position_scores"

    def in_scores(self, d_model: int, n_heads: int, initialization: str) -> InScores:
        return RelativeScores(d_model, n_heads, initialization)


class RelativeScores(InScores):
    """The parts of the scores for self-attention of d_model = E, n_heads = H.

    Args:
        initialization: of W, as in Attention.
    """

    def __init__(self, d_model: int, n_heads: int, initialization: str = "torch") -> None:
        super().__init__()
        self.d_model, self.head_width = d_model, d_model // n_heads
        self.content_bias = nn.Parameter(torch.zeros(n_heads, 1, self.head_width))
        self.position_bias = nn.Parameter(torch.zeros(n_heads, 1, self.head_width))
        self.position_proj = LinearMap(d_model, d_model, bias=False)
        if initialization == "xavier":
            nn.init.xavier_uniform_(self.position_proj.weight)

    def queries(self, q: Queries, first: int = 0) -> Queries:
        return q + self.content_bias

    def added(self, q: Queries, n_keys: int, first: int = 0, causal: bool = False) -> Float[Tensor, "B H N M"]:
        """(q_i + w) . W r_(i-j) / sqrt(D)"""
        n_queries = q.shape[2]
        # Angles at least in float32: half precision cannot represent distances above 256.
        dtype = torch.promote_types(q.dtype, torch.float32)
        # From the largest to the smallest: the scores of a query are then neighbours, in the order of the keys.
        largest = first + n_queries - 1
        distances = torch.arange(largest, first - n_keys, -1, device=q.device, dtype=dtype)
        table = self.position_proj(sinusoid(distances, self.d_model).to(q.dtype)).unflatten(-1, (-1, self.head_width))
        by_distance = (q + self.position_bias) * self.head_width**-0.5 @ table.permute(1, 2, 0)
        return _shifted_rows(by_distance, n_keys)


def _shifted_rows(x: Float[Tensor, "*rest N W"], size: int) -> Float[Tensor, "*rest N M"]:
    """`size` neighbouring numbers of each row: of the last row from column 0, of each row above from one column later.

    N + size - 1 columns. A view: unlike indices, it costs nothing, and its gradient is a copy.
    """
    n_rows, width = x.shape[-2:]
    if n_rows == 1:
        return x
    # Row i begins at number i * width + n_rows - 1 - i: rows one number shorter, after the first n_rows - 1 numbers.
    rest = x.flatten(-2)[..., n_rows - 1 : n_rows * width - 1]
    return rest.unflatten(-1, (n_rows, width - 1))[..., :size]
