"""Slow reference of forgetting attention: from a query back to the first key, with the product of the gates passed."""

import math

import torch
from reference.heads import join, project, real_positions, split
from reference.orthogonality import orthogonality_loss
from reference.qk_norm import normalize
from torch import Tensor, nn


def attention(
    module: nn.Module, x: Tensor, memory: Tensor | None, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    """Output and penalty; padded queries see no key."""
    q, k = (
        [
            [[normalize(norm.kind, row, norm.gain, norm.eps) for row in head] for head in sample]
            for sample in split(linear, x, module.n_heads)
        ]
        for linear, norm in ((module.q_proj, module.q_norm), (module.k_proj, module.k_norm))
    )
    v, real = split(module.v_proj, x, module.n_heads), real_positions(mask, x)
    out = [[[] for _ in range(module.n_heads)] for _ in range(len(x))]
    for b in range(len(x)):
        gates = [torch.sigmoid(project(module.forget_proj, row)) for row in x[b]]
        for h in range(module.n_heads):
            for i in range(x.shape[1]):
                weighted, total, kept = torch.zeros_like(v[b][h][i]), 0.0, 1.0
                for j in range(i, -1, -1) if i in real[b] else ():
                    weight = kept * torch.exp(q[b][h][i] @ k[b][h][j] / math.sqrt(len(q[b][h][i])))
                    weighted, total, kept = weighted + weight * v[b][h][j], total + weight, kept * gates[j][h]
                out[b][h].append(weighted / total if i in real[b] else weighted)
    penalty = orthogonality_loss(v, real) if module.orthogonality else torch.zeros((), dtype=x.dtype)
    return join(module.out_proj, out), penalty
