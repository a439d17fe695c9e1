"""Slow reference of kernelized attention: out_i = sum_j exp(-|q_i - k_j|^2 / (2 sqrt(D))) v_j."""

import math

import torch
from reference.heads import join, real_positions, split
from reference.orthogonality import orthogonality_loss
from torch import Tensor, nn


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
            for i in range(x.shape[1]):
                seen = [j for j in real[b] if j <= i or not causal] if memory is not None or i in real[b] else []
                total = torch.zeros_like(q[b][h][i])
                for j in seen:
                    difference = q[b][h][i] - k[b][h][j]
                    weight = torch.exp(-(difference @ difference) / (2 * math.sqrt(len(difference))))
                    total = total + weight * v[b][h][j]
                out[b][h].append(total)
    penalty = orthogonality_loss(v, real) if module.orthogonality else torch.zeros((), dtype=x.dtype)
    return join(module.out_proj, out), penalty
