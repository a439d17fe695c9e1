"""Slow reference of Skyformer's attention, one sample and head at a time."""

import math

import torch
from reference.landmarks import Rows, by_head, iterated, segments
from torch import Tensor, nn


def attention(
    module: nn.Module, x: Tensor, memory: Tensor | None, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    """Output and penalty; padded positions give zeros."""
    assert memory is None and not causal
    return by_head(one_head, module, x, mask)


def one_head(module: nn.Module, h: int, q: Rows, k: Rows, v: Rows) -> Rows:
    """Gaussian kernels of queries and keys with the landmarks, and the inverse of the landmarks' own."""
    landmarks = torch.stack([rows[p] for half, rows in enumerate((q, k)) for p in sampled(module, half, len(q))])
    size = len(landmarks)
    matrix = torch.stack([gaussian(row, landmarks) for row in landmarks])
    matrix = matrix + module.ridge * torch.eye(size, dtype=matrix.dtype)
    scales = torch.stack([1 / torch.sqrt(sum(row)) for row in matrix])
    scaled = torch.stack([scales[a] * matrix[a] * scales for a in range(size)])
    context = torch.zeros(size, len(v[0]), dtype=matrix.dtype)
    for key, value in zip(k, v, strict=True):
        context = context + gaussian(key, landmarks)[:, None] * value
    inverse = iterated(scaled, module.inverse_iterations)
    context = scales[:, None] * (inverse @ (scales[:, None] * context))
    return [gaussian(row, landmarks) @ context for row in q]


def sampled(module: nn.Module, half: int, n: int) -> list[int]:
    """Positions of landmarks among n: any, or one of each segment."""
    uniform = [draw / 2**31 for draw in module.draws[half].tolist()]
    if module.sampling == "uniform":
        return [math.floor(u * n) for u in uniform]
    parts = segments(n, len(uniform))
    return [part[math.floor(u * len(part))] for part, u in zip(parts, uniform, strict=False)]


def gaussian(x: Tensor, others: Tensor) -> Tensor:
    """exp(-|x - y|^2 / (2 sqrt(D))) for each y."""
    return torch.exp(-((others - x) ** 2).sum(-1) / (2 * math.sqrt(len(x))))
