"""Slow reference of the orthogonality loss: every pair of every head of every sample."""

import torch
from torch import Tensor


def squared_cosine(a: Tensor, b: Tensor) -> Tensor:
    """cos(a, b)^2; 0 where one of them has no direction."""
    lengths = (a @ a) * (b @ b)
    return (a @ b) ** 2 / lengths if lengths > 0 else 0.0 * (a @ b)


def orthogonality_loss(values: list[list[list[Tensor]]], real: list[list[int]]) -> Tensor:
    """Mean over samples of the mean over heads and pairs of different real positions.

    Args:
        values: for each sample, head and position a vector.
        real: for each sample its real positions; a sample with fewer than two is left out.
    """
    per_sample = []
    for heads, positions in zip(values, real, strict=True):
        if len(positions) < 2:
            continue
        pairs = [squared_cosine(v[i], v[j]) for v in heads for i in positions for j in positions if i < j]
        per_sample.append(sum(pairs) / len(pairs))
    return sum(per_sample) / len(per_sample) if per_sample else torch.zeros((), dtype=torch.float64)
