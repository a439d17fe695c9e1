"""Relative position biases of T5 (Raffel et al. 2020, section 2.1; buckets as in the released code).

    score_ij = q_i . k_j / sqrt(D) + table[bucket(j - i), h]

with a learned number for each of 32 buckets and H heads. The first half of the buckets have one distance each, the
others ranges that grow as a geometric series up to 128; the last one has all larger distances, so that no length is too
long. Bidirectional: 16 buckets for keys up to the query and 16 for later ones; causal: all 32 for the past. So in one
decoder with a bidirectional prefix, rows of the table have one meaning in the prefix and another after it.

As in T5, the layers of a stack (encoder, decoder) share a table. Unlike in T5, products are divided by sqrt(D); T5 has
this factor in its initial weights. Initial numbers from N(0, 1 / E), as in the transformers library.

Cost O(H N M) time and memory for the scores, as without fused kernels. Distances of one bucket are alike. No form in
linear time: a feature map has no scores to add to. In self-attention alone.
"""

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnlab.attention.core.score_position import distances_between, rows_of_distances
from attnlab.attention.core.tensor_types import Queries
from attnlab.attention.positions.base import InScores, Positions

BUCKETS, LARGEST = 32, 128
"""number of buckets, and the end of their geometric series of distances"""


@dataclass(frozen=True)
class T5Positions(Positions):
    """Biases of T5, in the scores alone; all attentions that an instance is given to share a table.

    tables: the table made for a number of heads.
    """

    needs = "supports_position_scores"
    tables: dict[int, "BucketBiases"] = field(default_factory=dict, compare=False, repr=False)

    def in_scores(self, d_model: int, n_heads: int, initialization: str) -> InScores:
        if n_heads not in self.tables:
            self.tables[n_heads] = BucketBiases(d_model, n_heads)
        return self.tables[n_heads]


class BucketBiases(InScores):
    """A table of biases by bucket and head.

    Attributes:
        causal_starts, side_starts: smallest distance of every bucket but the first, for all buckets and for half.
    """

    causal_starts: Tensor
    side_starts: Tensor

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(BUCKETS, n_heads) * d_model**-0.5)
        self.register_buffer("causal_starts", torch.tensor(bucket_starts(BUCKETS)), persistent=False)
        self.register_buffer("side_starts", torch.tensor(bucket_starts(BUCKETS // 2)), persistent=False)

    def added(self, q: Queries, n_keys: int, first: int = 0, causal: bool = False) -> Float[Tensor, "1 H N M"]:
        """table[bucket(j - i), h]"""
        buckets = self.buckets(distances_between(q.shape[2], n_keys, first, q.device), causal)
        return rows_of_distances(self.table[buckets].to(q.dtype).transpose(0, 1), n_keys)[None]

    def buckets(self, distances: Int[Tensor, " W"], causal: bool) -> Int[Tensor, " W"]:
        """The bucket of each distance j - i; in the causal form of a future key the bucket of distance 0."""
        starts = self.causal_starts if causal else self.side_starts
        size = distances.neg().clamp(min=0) if causal else distances.abs()
        # From integers: rounded logarithms differ between devices where a range of distances begins.
        bucket = (size[:, None] >= starts).sum(-1)
        return bucket if causal else bucket + BUCKETS // 2 * (distances > 0)


def bucket_starts(n_buckets: int) -> list[int]:
    """Smallest distance of buckets 1 .. n_buckets - 1.

    Half of the buckets have one distance; bucket n/2 + k begins at n/2 (LARGEST / (n/2))^(k / (n/2)), rounded up.
    """
    single = n_buckets // 2
    steps = range(n_buckets - single)
    # Rounded first: the logarithm of a whole number may be a little too large.
    ranges = [math.ceil(round(single * (LARGEST / single) ** (k / len(steps)), 6)) for k in steps]
    return [*range(1, single), *ranges]
