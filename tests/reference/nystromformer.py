"""Slow reference of Nystromformer's attention, one sample and head at a time."""

import math
from functools import partial

import torch
from reference.landmarks import Rows, by_head, iterated, largest_column_sum, segments
from torch import Tensor, nn


def attention(
    module: nn.Module, x: Tensor, memory: Tensor | None, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    """Output and penalty; padded positions give zeros."""
    assert memory is None and not causal
    if module.inverse_start == "head":
        return by_head(one_head, module, x, mask)
    largest = []

    def looked_at(module: nn.Module, h: int, q: Rows, k: Rows, v: Rows) -> Rows:
        largest.append(largest_column_sum(between_landmarks(module, q, k)[0]))
        return v

    by_head(looked_at, module, x, mask)
    return by_head(partial(one_head, largest=torch.stack(largest).max()), module, x, mask)


def between_landmarks(module: nn.Module, q: Rows, k: Rows) -> tuple[Tensor, Rows, Rows]:
    """The matrix between landmarks, and the landmarks of queries and keys."""
    parts = segments(len(q), module.n_landmarks)
    q_means, k_means = ([sum(rows[i] for i in part) / len(part) for part in parts] for rows in (q, k))
    return torch.stack([softmax(row, torch.stack(k_means)) for row in q_means]), q_means, k_means


def one_head(module: nn.Module, h: int, q: Rows, k: Rows, v: Rows, largest: Tensor | None = None) -> Rows:
    """Three softmax factors, the middle one inverted, and the convolution of the values."""
    between, q_means, k_means = between_landmarks(module, q, k)
    keys, values, means = torch.stack(k), torch.stack(v), torch.stack(k_means)
    inverse = iterated(between, module.pinv_iterations, largest)
    context = inverse @ torch.stack([softmax(row, keys) @ values for row in q_means])
    out = [softmax(row, means) @ context for row in q]
    if module.conv is None:
        return out
    kernel = module.conv.weight[h, 0, :, 0]
    for i in range(len(v)):
        for position, weight in enumerate(kernel):
            j = i + position - len(kernel) // 2
            if 0 <= j < len(v):
                out[i] = out[i] + weight * v[j]
    return out


def softmax(q: Tensor, keys: Tensor) -> Tensor:
    """Weights of one query over the keys."""
    exponentials = torch.exp(torch.stack([q @ k for k in keys]) / math.sqrt(len(q)))
    return exponentials / exponentials.sum()
