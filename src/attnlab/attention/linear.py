"""Linear attention with the feature map elu + 1 (Katharopoulos et al. 2020, sections 3.2 to 3.4), and variants with
normalised queries and keys and the orthogonality loss (Park & Kim 2024).

    out_i = phi(q_i / sqrt(D)) S / (phi(q_i / sqrt(D)) z + eps),  phi(x) = elu(x) + 1,  S, z: sums over keys

Cost O(N D^2). Supports bidirectional, causal (in chunks), cross and step (constant cost per token: running sums).
The scaling of queries before phi and eps = 1e-5 follow the public code of Park & Kim's first author; the original has
no scaling and eps = 1e-6: `scale_queries: false, eps: 1e-6`. Without the denominator (`normalization.denominator:
false`) it is the "linear attention without scaling" of Qin et al. 2022, table 1.
"""

from typing import Unpack

from jaxtyping import Float
from torch import Tensor

from attnlab.attention.base import head_width_of
from attnlab.attention.core.linear_core import FEATURE_MAPS, FeatureMapAttention, FeatureMapOptions, PositiveFeatureMap
from attnlab.attention.core.tensor_types import Queries
from attnlab.config.schema import NonNegative


class LinearAttention(FeatureMapAttention):
    """Linear attention with an elementwise feature map.

    Args:
        d_model, n_heads, eps, options: as in FeatureMapAttention.
        feature_map: of queries and keys; elu + 1 by default.
        scale_queries: multiply queries by 1/sqrt(D) before the feature map.
    """

    supports_rotation = True
    cross_equals_self = True
    supports_inner_width = True

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        feature_map: PositiveFeatureMap = "one_plus_elu",
        scale_queries: bool = True,
        eps: NonNegative = 1e-5,
        **options: Unpack[FeatureMapOptions],
    ) -> None:
        scale = head_width_of(d_model, n_heads, options) ** -0.5 if scale_queries else 1.0
        super().__init__(d_model, n_heads, scale=scale, eps=eps, **options)
        self.feature_map = FEATURE_MAPS[feature_map]

    def query_map(self, q: Queries) -> Float[Tensor, "B H N F"]:
        return self.feature_map(q)
