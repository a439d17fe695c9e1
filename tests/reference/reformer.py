"""Slow reference of LSH attention: of all rounds together, sum_j c_ij exp(q_i . k_j) v_j / sum_j c_ij exp(q_i . k_j).

c_ij counts the rounds in which i sees j: another token of its chunk or of the chunk before.
"""

import math

import torch
from reference.heads import join, real_positions, split
from reference.orthogonality import orthogonality_loss
from torch import Tensor, nn

EPS = 1e-6


def attention(
    module: nn.Module, x: Tensor, memory: Tensor | None, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    """Output and penalty; padded queries see no key."""
    assert memory is None and not causal
    q, v = split(module.qk_proj, x, module.n_heads), split(module.v_proj, x, module.n_heads)
    real = real_positions(mask, x)
    out = [[[torch.zeros_like(row) for row in head] for head in sample] for sample in v]
    for b in range(len(x)):
        for h in range(module.n_heads):
            k = [row / torch.sqrt(row @ row + len(row) * EPS) for row in q[b][h]]
            met = meetings(module, q[b][h], real[b])
            for i in real[b]:
                if not met[i]:
                    out[b][h][i] = v[b][h][i]
                    continue
                total, weighted = torch.zeros((), dtype=x.dtype), torch.zeros_like(v[b][h][i])
                for j, count in met[i].items():
                    weight = count * torch.exp(q[b][h][i] @ k[j])
                    total, weighted = total + weight, weighted + weight * v[b][h][j]
                out[b][h][i] = weighted / total
    penalty = orthogonality_loss(v, real) if module.orthogonality else torch.zeros((), dtype=x.dtype)
    return join(module.out_proj, out), penalty


def meetings(module: nn.Module, q: list[Tensor], real: list[int]) -> dict[int, dict[int, int]]:
    """For every real position of one head the others that it sees, and in how many rounds."""
    met: dict[int, dict[int, int]] = {i: {} for i in real}
    for rotation in module.rotations.tolist():
        order = sorted(real, key=lambda i: (bucket(q[i].tolist(), rotation), i))
        for position, i in enumerate(order):
            chunk = position // module.chunk_size
            seen = order[max(0, chunk - 1) * module.chunk_size : (chunk + 1) * module.chunk_size]
            for j in seen:
                if j != i:
                    met[i][j] = met[i].get(j, 0) + 1
    return met


def bucket(q: list[float], rotation: list[list[float]]) -> int:
    """The first position of the largest number in [q R; -q R]."""
    rotated = [math.fsum(q[d] * rotation[d][c] for d in range(len(q))) for c in range(len(rotation[0]))]
    signed = rotated + [-value for value in rotated]
    return signed.index(max(signed))
