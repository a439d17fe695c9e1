"""Slow reference of Nystromformer's attention, one sample and head at a time."""

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
    """Three softmax factors, the middle one inverted, and the convolution of the values."""
    parts = segments(len(q), module.n_landmarks)
    q_means, k_means = ([sum(rows[i] for i in part) / len(part) for part in parts] for rows in (q, k))
    keys, values, means = torch.stack(k), torch.stack(v), torch.stack(k_means)
    inverse = iterated(torch.stack([softmax(row, means) for row in q_means]), module.pinv_iterations)
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
