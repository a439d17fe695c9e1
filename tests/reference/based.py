"""Slow reference of Based: weights 1 + s + s^2 / 2 of every pair."""

import math

import torch
from reference.heads import Heads, join, real_positions, split
from reference.orthogonality import orthogonality_loss
from torch import Tensor, nn


def attention(
    module: nn.Module, x: Tensor, memory: Tensor | None, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    """Output and penalty; padded queries see no key."""
    source = x if memory is None else memory
    q: Heads = split(module.q_proj, x, module.n_heads)
    k, v = (split(projection, source, module.n_heads) for projection in (module.k_proj, module.v_proj))
    real = real_positions(mask, source)
    out = [[[] for _ in range(module.n_heads)] for _ in range(len(x))]
    for b in range(len(x)):
        for h in range(module.n_heads):
            for i in range(x.shape[1]):
                seen = [j for j in real[b] if j <= i or not causal] if memory is not None or i in real[b] else []
                weighted, total = torch.zeros_like(v[b][h][0]), module.eps
                for j in seen:
                    score = q[b][h][i] @ k[b][h][j] / math.sqrt(len(q[b][h][i]))
                    weight = 1 + score + score**2 / 2
                    weighted, total = weighted + weight * v[b][h][j], total + weight
                out[b][h].append(weighted / total)
    penalty = orthogonality_loss(v, real) if module.orthogonality else torch.zeros((), dtype=x.dtype)
    return join(module.out_proj, out), penalty
