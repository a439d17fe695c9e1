"""Slow reference of doubly normalised attention: exponentials over the sum of a key, then of a query."""

import torch
from reference.heads import join, real_positions, split
from reference.orthogonality import orthogonality_loss
from torch import Tensor, nn


def attention(
    module: nn.Module, x: Tensor, memory: Tensor | None, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    """Output and penalty; padding neither sees nor is seen."""
    assert memory is None and not causal
    q, k, v = (split(proj, x, module.n_heads) for proj in (module.q_proj, module.k_proj, module.v_proj))
    real = real_positions(mask, x)
    out = [[[] for _ in range(module.n_heads)] for _ in range(len(x))]
    for b in range(len(x)):
        for h in range(module.n_heads):
            shares = {}
            for j in real[b]:
                column = {i: torch.exp(q[b][h][i] @ k[b][h][j] / len(k[b][h][j]) ** 0.5) for i in real[b]}
                of_key = sum(column.values())
                shares |= {(i, j): value / of_key for i, value in column.items()}
            for i in range(x.shape[1]):
                seen = real[b] if i in real[b] else []
                total = sum(shares[i, j] for j in seen)
                weighted = [shares[i, j] / total * v[b][h][j] for j in seen]
                out[b][h].append(sum(weighted, start=torch.zeros_like(v[b][h][i])))
    penalty = orthogonality_loss(v, real) if module.orthogonality else torch.zeros((), dtype=x.dtype)
    return join(module.out_proj, out), penalty
