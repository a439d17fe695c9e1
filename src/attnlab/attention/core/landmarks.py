"""Landmarks of Nystrom approximations: segments of a sequence, and the inverse of the matrix between landmarks."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def segments(lengths: Int[Tensor, " B"], number: int) -> tuple[Int[Tensor, "B L"], Int[Tensor, "B L"]]:
    """Starts and sizes of segments: position p of n is in floor(p s / n), s = min(n, number); the others are empty."""
    used = lengths.clamp(min=1, max=number)[:, None]
    edges = torch.arange(number + 1, device=lengths.device) * lengths[:, None]
    edges = ((edges + used - 1) // used).clamp(max=lengths[:, None])
    return edges[:, :-1], edges.diff()


def with_identity(matrix: Float[Tensor, "B H L L"], real: Bool[Tensor, "B L"], ridge: float = 0.0) -> Tensor:
    """matrix + ridge I; missing landmarks get rows and columns of the identity, a separate block."""
    eye = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    return torch.where(real[:, None, :, None] & real[:, None, None, :], matrix + ridge * eye, eye)


def pseudo_inverse(
    matrix: Float[Tensor, "B H L L"], iterations: int, over_batch: bool = False
) -> Float[Tensor, "B H L L"]:
    """Moore-Penrose inverse by the iteration of Razavi et al. 2014, which Nystromformer and Skyformer use.

    For matrices without negative entries and with largest eigenvalue 1 (row sums of 1, or scaled by their roots): the
    first guess is divided by the largest column sum, which is then at least 1, also for rows of the identity.

    Args:
        over_batch: the largest of all samples and heads, not of each.
    """
    eye = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    sums = matrix.sum(-2)
    inverse = matrix.transpose(-1, -2) / (sums.amax() if over_batch else sums.amax(-1)[..., None, None])
    for _ in range(iterations):
        product = matrix @ inverse
        inverse = 0.25 * inverse @ (13 * eye - product @ (15 * eye - product @ (7 * eye - product)))
    return inverse
