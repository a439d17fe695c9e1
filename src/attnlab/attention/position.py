"""Positions inside attention scores.

Relative positions of Transformer-XL (Dai et al. 2019, section 3.3), as Csordas et al. 2021 use them on SCAN:

    score_ij = ((q_i + u) . k_j + (q_i + w) . W r_(i-j)) / sqrt(D)

with r the sinusoid of the signed distance, W a learned map, and u, w learned biases per head that start at 0.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


def sinusoid(positions: Float[Tensor, " N"], width: int) -> Float[Tensor, "N width"]:
    """Sines (even columns) and cosines (odd columns) of positions (Vaswani et al. 2017, section 3.5)."""
    even = torch.arange(0, width, 2, device=positions.device, dtype=positions.dtype)
    angles = positions[:, None] * torch.exp(even * (-math.log(10000.0) / width))
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)[:, :width]


class RelativePositions(nn.Module):
    """Relative position scores for self-attention of d_model = E, n_heads = H."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.d_model, self.head_width = d_model, d_model // n_heads
        self.content_bias = nn.Parameter(torch.zeros(n_heads, 1, self.head_width))
        self.position_bias = nn.Parameter(torch.zeros(n_heads, 1, self.head_width))
        self.position_proj = nn.Linear(d_model, d_model, bias=False)
        nn.init.xavier_uniform_(self.position_proj.weight)

    def scores(self, q: Float[Tensor, "B H N D"], n_keys: int, first_query: int = 0) -> Float[Tensor, "B H N M"]:
        """(q_i + w) . W r_(i-j), unscaled, for keys j = 0 .. n_keys - 1 and queries from position `first_query` on."""
        n_queries = q.shape[2]
        # Angles at least in float32: in half precision neither distances above 256 nor their sines come out right.
        dtype = torch.promote_types(q.dtype, torch.float32)
        distances = torch.arange(first_query - n_keys + 1, first_query + n_queries, device=q.device, dtype=dtype)
        table = self.position_proj(sinusoid(distances, self.d_model).to(q.dtype)).unflatten(-1, (-1, self.head_width))
        by_distance = (q + self.position_bias) @ table.permute(1, 2, 0)
        query, key = (torch.arange(n, device=q.device) for n in (n_queries, n_keys))
        column = query[:, None] - key[None, :] + n_keys - 1
        return by_distance.gather(-1, column.expand(*by_distance.shape[:2], -1, -1))
