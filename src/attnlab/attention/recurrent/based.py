"""Based: linear attention with the Taylor series of the exponential (Arora et al. 2024, "Simple linear attention
language models balance the recall-throughput tradeoff", section 4).

    out_i = sum_j w_ij v_j / (sum_j w_ij + eps),   w_ij = 1 + s_ij + s_ij^2 / 2,   s_ij = q_i . k_j / sqrt(K)

with queries and keys of a narrow width K. The weights are products of 1 + K + K (K + 1) / 2 features: 1, the columns
x_a, the squares x_a^2 / sqrt 2, and the products x_a x_b of two columns (the published code keeps both x_a x_b and
x_b x_a, so its state is larger). Cost O(N K^2 C). Supports bidirectional, causal (in chunks), cross and step (running
sums). No rotary positions: these features are no pairs of columns. The sliding window that the paper puts in other
layers is a layer group of another attention.
"""

from typing import Unpack

import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.attention.core.linear_core import FeatureMapAttention, FeatureMapOptions
from attnlab.attention.core.tensor_types import Queries
from attnlab.config.schema import Count, NonNegative


class BasedAttention(FeatureMapAttention):
    """Linear attention with the Taylor series of the exponential.

    Args:
        d_model, n_heads, eps, options: as in FeatureMapAttention.
        key_width: width K of the queries and keys of a head.
    """

    supports_rotation = False
    cross_equals_self = True

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        key_width: Count = 16,
        eps: NonNegative = 1e-6,
        **options: Unpack[FeatureMapOptions],
    ) -> None:
        n_features = 1 + key_width + key_width * (key_width + 1) // 2
        scale = key_width**-0.5
        super().__init__(d_model, n_heads, key_width=key_width, n_features=n_features, scale=scale, eps=eps, **options)

    def query_map(self, q: Queries) -> Float[Tensor, "B H N F"]:
        # Slices: the gradient of an index is slow.
        products = [q[..., a : a + 1] * q[..., a + 1 :] for a in range(self.key_width - 1)]
        return torch.cat((torch.ones_like(q[..., :1]), q, q.square() * 0.5**0.5, *products), dim=-1)
