"""Slow reference of cosFormer: out_i = sum_j s_ij v_j / max(sum_j s_ij, eps), with phi = relu and

s_ij = phi(q_i) . phi(k_j) cos((pi / 2) (p_i - p_j) / M),  p_i = min(i, M), i = 1, 2, ...
"""

import math

import torch
from reference.heads import join, real_positions, split
from reference.orthogonality import orthogonality_loss
from reference.qk_norm import normalize
from torch import Tensor, nn


def attention(
    module: nn.Module, x: Tensor, memory: Tensor | None, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    """Output and penalty; padded queries see no key."""
    source = x if memory is None else memory
    length = module.max_length or max(x.shape[1], source.shape[1])
    q = split(module.q_proj, x, module.n_heads)
    k = split(module.k_proj, source, module.n_heads)
    v = split(module.v_proj, source, module.n_heads)
    real = real_positions(mask, source)
    q = [[[features(module, row, module.q_norm) for row in head] for head in sample] for sample in q]
    k = [[[features(module, row, module.k_norm) for row in head] for head in sample] for sample in k]
    out = [[[] for _ in range(module.n_heads)] for _ in range(len(x))]
    for b in range(len(x)):
        for h in range(module.n_heads):
            for i in range(x.shape[1]):
                total, weighted = torch.zeros((), dtype=x.dtype), torch.zeros_like(v[b][h][0])
                seen = [j for j in real[b] if j <= i or not causal] if memory is not None or i in real[b] else []
                for j in seen:
                    distance = min(i + 1, length) - min(j + 1, length)
                    weight = q[b][h][i] @ k[b][h][j] * math.cos(math.pi / 2 * distance / length)
                    total, weighted = total + weight, weighted + weight * v[b][h][j]
                least = total if total > module.eps else module.eps
                out[b][h].append(weighted / least if module.denominator else weighted)
    penalty = orthogonality_loss(v, real) if module.orthogonality else torch.zeros((), dtype=x.dtype)
    return join(module.out_proj, out), penalty


def features(module: nn.Module, row: Tensor, norm: nn.Module) -> Tensor:
    """relu of one query or key of one head, normalised before or after it."""
    if module.norm_first:
        return relu(normalize(norm.kind, row, norm.gain, norm.eps))
    return normalize(norm.kind, relu(row), norm.gain, norm.eps)


def relu(row: Tensor) -> Tensor:
    """x above 0, 0 below."""
    return torch.stack([value if value > 0 else 0.0 * value for value in row])
