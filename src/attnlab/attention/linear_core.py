"""Linear attention on features, in the one place all its forms share.

    out_i = phi(q_i) S_i / (phi(q_i) z_i + eps),   S_i = sum_j phi(k_j) v_j^T,   z_i = sum_j phi(k_j)

with j over all keys (bidirectional, cross) or j <= i (causal). The denominator rides along as one more column of v.
Cost O(N F D); the causal form works in chunks: exact within a chunk, a running state before it. Sums are in float32 or
better (`full_precision`); callers hand over features, never raw queries and keys.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor


@contextmanager
def full_precision(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Autocast off, and the tensors in float32 where they came in a shorter format: half precision loses long sums."""
    with torch.autocast(device_type=tensors[0].device.type, enabled=False):
        yield tuple(t.float() if t.dtype in (torch.float16, torch.bfloat16) else t for t in tensors)


def mask_keys(k: Float[Tensor, "B H M F"], mask: Bool[Tensor, "B M"] | None) -> Float[Tensor, "B H M F"]:
    """Features of keys with those of padding set to 0: after the feature map, because phi(0) is not 0."""
    return k if mask is None else k * mask[:, None, :, None]


def with_ones(v: Float[Tensor, "B H M D"]) -> Float[Tensor, "B H M D+1"]:
    """Values with a column of ones, whose weighted sum is the denominator."""
    return F.pad(v, (0, 1), value=1.0)


def divide(out: Float[Tensor, "B H N C"], eps: float) -> Float[Tensor, "B H N C-1"]:
    """Sums over their denominator; 0 where a query saw no key."""
    return out[..., :-1] / (out[..., -1:] + eps)


def key_value_sum(k: Float[Tensor, "*rest M F"], v: Float[Tensor, "*rest M C"]) -> Float[Tensor, "*rest F C"]:
    """S = sum over keys of phi(k_j) v_j^T, of whole sequences or of every chunk."""
    return k.transpose(-1, -2) @ v


def bidirectional(
    q: Float[Tensor, "B H N F"], k: Float[Tensor, "B H M F"], v: Float[Tensor, "B H M C"]
) -> Float[Tensor, "B H N C"]:
    """Every query against all keys: two matrix products."""
    return q @ key_value_sum(k, v)


def causal(
    q: Float[Tensor, "B H N F"], k: Float[Tensor, "B H N F"], v: Float[Tensor, "B H N C"], chunk_size: int
) -> Float[Tensor, "B H N C"]:
    """Query i against keys up to i, in chunks of `chunk_size` positions."""
    length = q.shape[2]
    if length <= chunk_size:
        return (q @ k.transpose(-1, -2)).tril() @ v
    q, k, v = (_chunks(x, chunk_size) for x in (q, k, v))
    sums = key_value_sum(k, v)
    # Shifted rather than subtracted: what a large key of the chunk itself rounds away must not reach earlier queries.
    before = F.pad(sums[:, :, :-1], (0, 0, 0, 0, 1, 0)).cumsum(2)
    out = (q @ k.transpose(-1, -2)).tril() @ v + q @ before
    return out.flatten(2, 3)[:, :, :length]


def _chunks(x: Tensor, size: int) -> Tensor:
    """[B, H, N, C] as [B, H, N / size, size, C], filled up with zeros, which add nothing to any sum."""
    return F.pad(x, (0, 0, 0, -x.shape[2] % size)).unflatten(2, (-1, size))
