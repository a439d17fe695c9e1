"""Slow reference of softmax attention: softmax(q_i . k_j / sqrt(D) + added_ij) v_j, q and k at their positions."""

import math
from collections.abc import Callable

import torch
from reference.heads import join, placed, real_positions, split
from reference.orthogonality import orthogonality_loss
from torch import Tensor, nn


def attention(
    module: nn.Module,
    x: Tensor,
    memory: Tensor | None,
    mask: Tensor | None,
    causal: bool,
    sees: Callable[[int, int], bool] = lambda i, j: True,
) -> tuple[Tensor, Tensor]:
    """Output and penalty; padded queries see no key, others the real keys j of which sees(i, j) is true."""
    source = x if memory is None else memory
    q = split(module.q_proj, x, module.n_heads)
    k = split(module.k_proj, source, module.n_heads)
    v = split(module.v_proj, source, module.n_heads)
    real = real_positions(mask, source)
    out = [[[] for _ in range(module.n_heads)] for _ in range(len(x))]
    for b in range(len(x)):
        for h in range(module.n_heads):
            queries, keys, added = placed(module.positions, h, q[b][h], k[b][h], causal)
            for i in range(x.shape[1]):
                reads = memory is not None or i in real[b]
                seen = [j for j in real[b] if (j <= i or not causal) and sees(i, j)] if reads else []
                total, weighted = torch.zeros((), dtype=x.dtype), torch.zeros_like(q[b][h][i])
                for j in seen:
                    weight = torch.exp(queries[i] @ keys[j] / math.sqrt(module.head_width) + added(i, j))
                    total, weighted = total + weight, weighted + weight * v[b][h][j]
                out[b][h].append(weighted / total if seen else weighted)
    penalty = orthogonality_loss(v, real) if module.orthogonality else torch.zeros((), dtype=x.dtype)
    return join(module.out_proj, out), penalty
