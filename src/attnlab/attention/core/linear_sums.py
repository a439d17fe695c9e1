"""Weighted sums of values by products of features, without the matrix of all weights: bidirectional and causal.

    out_i = phi(q_i) sum_j phi(k_j) v_j^T,   total_i = phi(q_i) . sum_j phi(k_j)

Cost O(N F D). The causal form works in chunks: a full matrix within a chunk, running sums before it.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from attnlab.attention.core.prefix_sums import sums_before
from attnlab.attention.core.tensor_types import Attended, SelfValues, Values


def with_ones(v: Float[Tensor, "B H M D"]) -> Float[Tensor, "B H M D+1"]:
    """Values with a column of ones, whose weighted sum is the total."""
    return F.pad(v, (0, 1), value=1.0)


def key_value_sum(k: Float[Tensor, "*rest M F"], v: Float[Tensor, "*rest M C"]) -> Float[Tensor, "*rest F C"]:
    """S = sum over keys of phi(k_j) v_j^T, of whole sequences or of every chunk."""
    # As the transpose of V^T K: so the gradient of k has its memory in order, and the maps before it pass over it fast.
    return (v.transpose(-1, -2) @ k).transpose(-1, -2)


def bidirectional_sums(
    q: Float[Tensor, "B H N F"], k: Float[Tensor, "B H M F"], v: Values, *, total: bool
) -> tuple[Attended, Float[Tensor, "B H N 1"] | None]:
    """Every query against all keys.

    Args:
        total: also the sum of the weights of each query; otherwise None in its place.
    """
    if q.shape[2] == 1:
        # The weights first: without a matrix F x C per head. With its gradients 3 to 7 times as fast (CPU).
        weights = (q * k).sum(-1, keepdim=True)
        return (weights * v).sum(2, keepdim=True), weights.sum(2, keepdim=True) if total else None
    out = q @ key_value_sum(k, v)
    # As products of numbers: with its gradients 2 to 2.7 times as fast as a matrix product of width one (CPU).
    return out, torch.linalg.vecdot(q, k.sum(2, keepdim=True))[..., None] if total else None


def causal_sums(
    q: Float[Tensor, "B H N F"], k: Float[Tensor, "B H N F"], v: SelfValues, *, chunk_size: int, total: bool
) -> tuple[Attended, Float[Tensor, "B H N 1"] | None]:
    """Query i against keys up to i, in chunks of `chunk_size` positions; `total` as in `bidirectional_sums`."""
    # In place where no gradient needs the former values: with long sequences memory traffic takes most of the time.
    length = q.shape[2]
    if length <= chunk_size:
        scores = _causal_scores(q, k)
        return scores @ v, scores.sum(-1, keepdim=True) if total else None
    q, k, v = (chunks(x, chunk_size) for x in (q, k, with_ones(v) if total else v))
    out = (q @ sums_before(key_value_sum(k, v))).add_(_causal_scores(q, k) @ v).flatten(2, 3)[:, :, :length]
    return (out[..., :-1], out[..., -1:]) if total else (out, None)


def _causal_scores(q: Tensor, k: Tensor) -> Tensor:
    """q k^T, 0 above the diagonal; in place, but in a compiled step."""
    scores = q @ k.transpose(-1, -2)
    return scores.tril() if torch.compiler.is_compiling() else scores.tril_()


def chunks(x: Tensor, size: int) -> Tensor:
    """[B, H, N, C] as [B, H, N / size, size, C], padded with zeros, which change no sum; a view without padding."""
    x = F.pad(x, (0, 0, 0, -x.shape[2] % size)) if x.shape[2] % size else x
    return x.unflatten(2, (-1, size))
