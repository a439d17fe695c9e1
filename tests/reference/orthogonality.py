"""Slow reference of the orthogonality loss: every pair of every head of every sample."""

import torch
from torch import Tensor


def squared_cosines(v: list[Tensor], i: int) -> Tensor:
    """cos(v_i, v_j)^2 for all j > i; 0 where one of the two has no direction."""
    later = torch.stack(v[i + 1 :])
    dots, lengths = later @ v[i], (v[i] @ v[i]) * (later * later).sum(-1)
    nothing = lengths == 0
    return torch.where(nothing, 0.0 * dots, dots**2 / (lengths + nothing.to(v[i].dtype)))


def head_loss(v: list[Tensor], form: str) -> Tensor:
    """Another form of the loss for one head: entry by entry of the matrices of dot products and of cosines."""
    squared = form.removesuffix("_unsquared")
    if squared != form:
        return head_loss(v, squared).sqrt()
    total, n = torch.zeros((), dtype=torch.float64), len(v)
    for i in range(n):
        for j in range(n):
            dot, same = (v[i] * v[j]).sum(), float(i == j)
            cosine = dot / (v[i].norm() * v[j].norm())
            match form:
                case "frobenius":
                    total = total + (cosine - same) ** 2
                case "unnormalized":
                    total = total + (dot - same) ** 2
                case "absolute_cosine" if i != j:
                    total = total + abs(cosine) / (n * (n - 1))
    return total


def side_by_side(values: list[list[list[Tensor]]]) -> list[list[list[Tensor]]]:
    """The heads of every position as one vector, of a single head."""
    return [[[torch.cat(heads) for heads in zip(*sample, strict=True)]] for sample in values]


def orthogonality_loss(values: list[list[list[Tensor]]], real: list[list[int]], form: str | None = None) -> Tensor:
    """Mean over samples of the mean over heads and pairs of different real positions, or of `head_loss` over heads.

    Args:
        values: for each sample, head and position a vector.
        real: for each sample its real positions; a sample with fewer than two is left out.
    """
    per_sample = []
    for heads, positions in zip(values, real, strict=True):
        if len(positions) < 2:
            continue
        kept = [[v[j] for j in positions] for v in heads]
        if form is not None:
            per_sample.append(sum(head_loss(v, form) for v in kept) / len(kept))
            continue
        pairs = torch.cat([squared_cosines(v, i) for v in kept for i in range(len(v) - 1)])
        per_sample.append(pairs.sum() / len(pairs))
    return sum(per_sample) / len(per_sample) if per_sample else torch.zeros((), dtype=torch.float64)
