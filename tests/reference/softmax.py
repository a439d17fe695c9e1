"""Slow reference of softmax attention: softmax(q_i . k_j / sqrt(D)) v_j, with relative scores, or with rotations."""

import math
from functools import cache

import torch
from reference.heads import join, real_positions, split
from reference.orthogonality import orthogonality_loss
from reference.rotation import rotated
from torch import Tensor, nn

from attnlab.attention.positions.rotary import Rotation


def attention(
    module: nn.Module, x: Tensor, memory: Tensor | None, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    """Output and penalty; padded queries see no key."""
    source = x if memory is None else memory
    q = split(module.q_proj, x, module.n_heads)
    k = split(module.k_proj, source, module.n_heads)
    v = split(module.v_proj, source, module.n_heads)
    real = real_positions(mask, source)
    out = [[[] for _ in range(module.n_heads)] for _ in range(len(x))]
    for b in range(len(x)):
        for h in range(module.n_heads):
            queries, keys = q[b][h], k[b][h]
            if isinstance(module.positions, Rotation):
                queries, keys = ([rotated(row, i) for i, row in enumerate(rows)] for rows in (queries, keys))
            for i in range(x.shape[1]):
                seen = [j for j in real[b] if j <= i or not causal] if memory is not None or i in real[b] else []
                total, weighted = torch.zeros((), dtype=x.dtype), torch.zeros_like(q[b][h][i])
                for j in seen:
                    weight = torch.exp(score(module, h, i, j, queries[i], keys[j]))
                    total, weighted = total + weight, weighted + weight * v[b][h][j]
                out[b][h].append(weighted / total if seen else weighted)
    penalty = orthogonality_loss(v, real) if module.orthogonality else torch.zeros((), dtype=x.dtype)
    return join(module.out_proj, out), penalty


def score(module: nn.Module, h: int, i: int, j: int, q: Tensor, k: Tensor) -> Tensor:
    """q . k / sqrt(D), or ((q + u) . k + (q + w) . W r_(i-j)) / sqrt(D) with relative positions.

    q and k: of one head, rotated already with rotary positions.
    """
    width = len(q)
    if module.positions is None or isinstance(module.positions, Rotation):
        return q @ k / math.sqrt(width)
    content_bias, position_bias = module.positions.content_bias[h, 0], module.positions.position_bias[h, 0]
    rows = module.positions.position_proj.weight[h * width : (h + 1) * width]
    distance = rows @ sinusoid(i - j, rows.shape[1])
    return ((q + content_bias) @ k + (q + position_bias) @ distance) / math.sqrt(width)


@cache
def sinusoid(distance: int, width: int) -> Tensor:
    """Column 2c: sin(distance / 10000^(2c / width)); column 2c + 1: its cosine."""
    angles = [distance / 10000 ** (2 * (column // 2) / width) for column in range(width)]
    values = [math.cos(angle) if column % 2 else math.sin(angle) for column, angle in enumerate(angles)]
    return torch.tensor(values, dtype=torch.float64)
