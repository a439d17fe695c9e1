"""Weighted sums of values by products of features, without the matrix of all weights: bidirectional and causal.

    out_i = phi(q_i) sum_j phi(k_j) v_j^T,   total_i = phi(q_i) . sum_j phi(k_j)

Cost O(N F D). The causal form works in chunks: a full matrix within a chunk, running sums before it.
"""

from collections.abc import Callable

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
    q: Float[Tensor, "B H N K"],
    k: Float[Tensor, "B H N K"],
    v: SelfValues,
    *,
    chunk_size: int,
    total: bool,
    features: Callable[[Tensor], Tensor] | None = None,
    scores: Callable[[Tensor, Tensor], Tensor] | None = None,
    segment: int | None = None,
) -> tuple[Attended, Float[Tensor, "B H N 1"] | None]:
    """Query i against keys up to i, in chunks of `chunk_size` positions; `total` as in `bidirectional_sums`.

    Args:
        features, scores: phi, and the products phi(q_i) . phi(k_j) of a chunk, 0 above the diagonal, where something is
            faster than products of features; None: q and k are features.
        segment: positions, in whole chunks, whose features are made at once, so that they are still in the processor's
            cache where they are read; None: all.
    """
    # In place where no gradient needs the former values: with long sequences memory traffic takes most of the time.
    length, scores = q.shape[2], scores or _causal_scores
    if length <= chunk_size:
        weights = scores(q, k)
        return weights @ v, weights.sum(-1, keepdim=True) if total else None
    size, outputs, state = length if segment is None else max(segment // chunk_size, 1) * chunk_size, [], None
    for parts in zip(*(x.split(size, dim=2) for x in (q, k, with_ones(v) if total else v)), strict=True):
        part_q, part_k, part_v = (chunks(x, chunk_size) for x in parts)
        rows, columns = (part_q, part_k) if features is None else (features(part_q), features(part_k))
        added = key_value_sum(columns, part_v)
        before = sums_before(added) if state is None else sums_before(added) + state
        outputs.append((rows @ before).add_(scores(part_q, part_k) @ part_v).flatten(2, 3))
        state = before[:, :, -1:] + added[:, :, -1:] if size < length else None
    out = (outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2))[:, :, :length]
    return (out[..., :-1], out[..., -1:]) if total else (out, None)


def _causal_scores(q: Tensor, k: Tensor) -> Tensor:
    """q k^T, 0 above the diagonal; in place, but in a compiled step."""
    scores = q @ k.transpose(-1, -2)
    return scores.tril() if torch.compiler.is_compiling() else scores.tril_()


def chunks(x: Tensor, size: int) -> Tensor:
    """[B, H, N, C] as [B, H, N / size, size, C], padded with zeros, which change no sum; a view without padding."""
    x = F.pad(x, (0, 0, 0, -x.shape[2] % size)) if x.shape[2] % size else x
    return x.unflatten(2, (-1, size))
