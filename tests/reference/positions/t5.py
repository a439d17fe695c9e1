"""Slow reference of the biases of T5: buckets as in the released code (Raffel et al. 2020, section 2.1)."""

import math

from reference.positions.none import key, query
from torch import Tensor, nn

__all__ = ["added", "bucket", "key", "query"]


def added(positions: nn.Module, h: int, i: int, j: int, row: Tensor, causal: bool) -> Tensor:
    """The number of the bucket of j - i and of head h."""
    return positions.table[bucket(j - i, causal), h]


def bucket(distance: int, causal: bool) -> int:
    """16 buckets for keys up to the query and 16 for later ones; causal: 32 for the past, of which 0 for the future."""
    if causal:
        return one_sided(max(-distance, 0), 32)
    return one_sided(abs(distance), 16) + (16 if distance > 0 else 0)


def one_sided(size: int, buckets: int) -> int:
    """Half of the buckets have one distance; the others end in equal steps of the logarithm, the last is open."""
    single = buckets // 2
    if size < single:
        return size
    # a little more, since the logarithm of a whole number of steps may be rounded down
    step = math.log(size / single) / math.log(128 / single) * (buckets - single) + 1e-9
    return min(single + math.floor(step), buckets - 1)
