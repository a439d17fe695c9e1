"""Feature fixation: linear attention with gated features (Lu et al. 2022, "Linear Video Transformer with
Feature Fixation", arXiv 2210.08164).

    out_i = q'_i S / (q'_i z + eps),   q'_i = sigmoid(G_q a_i) phi(q_i),   S, z: sums over keys of k'_j v_j^T, k'_j
    k'_i = sigmoid(G_k a_i) phi(k_i),   a_i = [phi(q_i), phi(k_i), v_i],   phi(x) = relu(x) + 1/sqrt(D)

a_i is of one position, and G_q, G_k are linear maps 3D -> D that the heads share. Cost O(N D^2). Supports
bidirectional, causal (in chunks), cross and step (constant cost per token: running sums); a step and cross-attention
compute three more projections of each position.

Only the paper's abstract could be read: the formula is from its code (OpenNLPLab/Linear_VideoTransformer).
Cross-attention, which the code has not, gates queries by keys and values of their positions, and keys by queries of the
memory. Left out are the shift of some channels of keys and values between neighbouring pixels and frames
("neighbourhood association"), which a sequence does not have, and the code's option to rotate features.
"""

from typing import Unpack

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from attnlab.attention.core.linear_core import FeatureMapAttention, FeatureMapOptions
from attnlab.attention.core.projected_heads import projected_heads
from attnlab.attention.core.tensor_types import KeyMask, Keys, Memory, Queries, Values
from attnlab.config.schema import NonNegative
from attnlab.kernels.linear_map import LinearMap


class FeatureFixation(FeatureMapAttention):
    """Linear attention with gated features; queries and keys carry the logits of their gates as further columns.

    Args:
        d_model, n_heads, eps, options: as in FeatureMapAttention; features are normalised before they are
            gated, and the gates see them as they were.
        shared_gate: one linear map for the gates of queries and keys; the published runs have two.
    """

    supports_rotation = True
    cross_equals_self = True

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        shared_gate: bool = False,
        eps: NonNegative = 1e-6,
        **options: Unpack[FeatureMapOptions],
    ) -> None:
        super().__init__(d_model, n_heads, eps=eps, **options)
        self.q_gate = LinearMap(3 * self.head_width, self.head_width)
        self.k_gate = self.q_gate if shared_gate else LinearMap(3 * self.head_width, self.head_width)

    def query_map(self, q: Queries) -> Float[Tensor, "B H N F"]:
        return F.relu(q) + self.head_width**-0.5

    def queries(self, x: Float[Tensor, "B N E"]) -> Float[Tensor, "B H N Q"]:
        return self.queries_keys_values(x, x)[0]

    def keys_values(self, source: Memory) -> tuple[Float[Tensor, "B H M K"], Values]:
        return self.queries_keys_values(source, source)[1:]

    def queries_keys_values(
        self, x: Float[Tensor, "B N E"], source: Memory
    ) -> tuple[Float[Tensor, "B H N Q"], Float[Tensor, "B H M K"], Values]:
        if x is not source:
            return self.queries(x), *self.keys_values(source)
        q, k, v = projected_heads(x, (self.q_proj, self.k_proj, self.v_proj), self.n_heads)
        seen = torch.cat((self.query_map(q), self.query_map(k), v), -1)
        return torch.cat((q, self.q_gate(seen)), -1), torch.cat((k, self.k_gate(seen)), -1), v

    def query_features(self, q: Queries, first: int = 0) -> Float[Tensor, "B H N F"]:
        return super().query_features(self.query_heads(q), first) * _ratio(q)

    def key_features(self, k: Keys, mask: KeyMask | None, first: int = 0) -> Float[Tensor, "B H M F"]:
        return super().key_features(self.key_heads(k), mask, first) * _ratio(k)

    def query_heads(self, q: Float[Tensor, "B H N Q"]) -> Float[Tensor, "B H N D"]:
        return q[..., : self.head_width]

    def key_heads(self, k: Float[Tensor, "B H M K"]) -> Float[Tensor, "B H M D"]:
        return k[..., : self.head_width]


def _ratio(x: Tensor) -> Tensor:
    """Gates, from the logits in the second half of the columns."""
    return x.chunk(2, -1)[1].sigmoid()
