"""Linear attention on learned features, as in Hedgehog (Zhang et al. 2024; an example of a feature map).

    phi(x) = [exp(x W), exp(-x W)] / (sum of both)

W is a matrix for the queries and one for the keys of each head, at first the identity. The sum, which published code
has too, keeps large inputs finite. Cost O(N D^2). Supports bidirectional, causal, cross and step (running sums).
"""

from typing import Unpack

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.attention.core.linear_core import FeatureMapAttention, FeatureMapOptions
from attnlab.attention.core.tensor_types import KeyMask, Keys, Queries


class HedgehogAttention(FeatureMapAttention):
    """Linear attention on two learned features for each column of a head.

    Args:
        d_model, n_heads, options: as in FeatureMapAttention.
    """

    def __init__(self, d_model: int, n_heads: int, **options: Unpack[FeatureMapOptions]) -> None:
        super().__init__(d_model, n_heads, n_features=2 * (d_model // n_heads), **options)
        start = torch.eye(self.head_width).expand(n_heads, -1, -1)
        self.query_weight, self.key_weight = nn.Parameter(start.clone()), nn.Parameter(start.clone())

    def query_map(self, q: Queries) -> Float[Tensor, "B H N F"]:
        return features(q, self.query_weight)

    def key_map(self, k: Keys, mask: KeyMask | None) -> Float[Tensor, "B H M F"]:
        return features(k, self.key_weight)


def features(x: Tensor, weight: Tensor) -> Tensor:
    """phi(x)"""
    y = x @ weight.to(x.dtype)
    return torch.cat((y, -y), dim=-1).softmax(-1)
