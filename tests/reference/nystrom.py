"""Slow references of Nystromformer's and Skyformer's attention, one sample and head at a time.

Padding is cut off first; then one query or one key after another. Only the m x m inverse is iterated with matrices.
"""

import math

import torch
from reference.heads import Heads, join, real_positions, split
from reference.orthogonality import orthogonality_loss
from torch import Tensor, nn

Rows = list[Tensor]
"""A vector for each position, or each landmark."""


def attention(
    module: nn.Module, x: Tensor, memory: Tensor | None, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    """Output and penalty; padded positions give zeros."""
    assert memory is None and not causal
    q, k, v = (split(linear, x, module.n_heads) for linear in (module.q_proj, module.k_proj, module.v_proj))
    real = real_positions(mask, x)
    one_head = nystromformer if hasattr(module, "pinv_iterations") else skyformer
    out: Heads = []
    for b in range(len(x)):
        heads = []
        for h in range(module.n_heads):
            rows = [torch.zeros_like(row) for row in v[b][h]]
            if real[b]:
                found = one_head(module, h, *([head[b][h][i] for i in real[b]] for head in (q, k, v)))
                rows[: len(found)] = found
            heads.append(rows)
        out.append(heads)
    penalty = orthogonality_loss(v, real) if module.orthogonality else torch.zeros((), dtype=x.dtype)
    return join(module.out_proj, out), penalty


def nystromformer(module: nn.Module, h: int, q: Rows, k: Rows, v: Rows) -> Rows:
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
        for place, weight in enumerate(kernel):
            j = i + place - len(kernel) // 2
            if 0 <= j < len(v):
                out[i] = out[i] + weight * v[j]
    return out


def skyformer(module: nn.Module, h: int, q: Rows, k: Rows, v: Rows) -> Rows:
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


def segments(n: int, number: int) -> list[list[int]]:
    """Position p of n is in segment floor(p m / n), with m the smaller of n and `number`."""
    m = min(n, number)
    parts: list[list[int]] = [[] for _ in range(m)]
    for p in range(n):
        parts[p * m // n].append(p)
    return parts


def softmax(q: Tensor, keys: Tensor) -> Tensor:
    """Weights of one query over the keys."""
    exponentials = torch.exp(torch.stack([q @ k for k in keys]) / math.sqrt(len(q)))
    return exponentials / exponentials.sum()


def gaussian(x: Tensor, others: Tensor) -> Tensor:
    """exp(-|x - y|^2 / (2 sqrt(D))) for each y."""
    return torch.exp(-((others - x) ** 2).sum(-1) / (2 * math.sqrt(len(x))))


def iterated(matrix: Tensor, iterations: int) -> Tensor:
    """Z <- Z (13 I - M Z (15 I - M Z (7 I - M Z))) / 4 from Z = M^T / (largest column sum of M)."""
    eye = torch.eye(len(matrix), dtype=matrix.dtype)
    inverse = matrix.T / torch.stack([column.sum() for column in matrix.T]).max()
    for _ in range(iterations):
        step = matrix @ inverse
        inverse = inverse @ (13 * eye - step @ (15 * eye - step @ (7 * eye - step))) / 4
    return inverse
