"""Slow reference of attention in a window: softmax over the positions near the query, in plain loops."""

from itertools import product

import torch
from reference.heads import join, real_positions, split
from reference.orthogonality import orthogonality_loss
from torch import Tensor, nn


def attention(
    module: nn.Module, x: Tensor, memory: Tensor | None, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    """Output and penalty; padded queries see no key."""
    q, k, v = (split(projection, x, module.n_heads) for projection in (module.q_proj, module.k_proj, module.v_proj))
    real = real_positions(mask, x)
    out = [[[] for _ in range(module.n_heads)] for _ in range(len(x))]
    for b, h, i in product(range(len(x)), range(module.n_heads), range(x.shape[1])):
        seen = [j for j in real[b] if abs(i - j) < module.window and (j <= i or not causal)] if i in real[b] else []
        weights = [torch.exp(q[b][h][i] @ k[b][h][j] / module.head_width**0.5) for j in seen]
        weighted = [weight / sum(weights) * v[b][h][j] for weight, j in zip(weights, seen, strict=True)]
        out[b][h].append(sum(weighted, start=torch.zeros_like(q[b][h][i])))
    penalty = orthogonality_loss(v, real) if module.orthogonality else torch.zeros((), dtype=x.dtype)
    return join(module.out_proj, out), penalty
