"""Slow reference of threshold relative attention: from a query back to the first key, counting those that survive."""

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
    assert causal and memory is None, "it has no other form"
    q, k = (
        [
            [[normalize("rms", row, 1.0) for row in head] for head in sample]
            for sample in split(linear, x, module.n_heads)
        ]
        for linear in (module.q_proj, module.k_proj)
    )
    v = split(module.v_proj, x, module.n_heads)
    real = real_positions(mask, x)
    out = [[[] for _ in range(module.n_heads)] for _ in range(len(x))]
    for b in range(len(x)):
        for i in range(x.shape[1]):
            gates = project(module.gate_proj, x[b, i])
            for h in range(module.n_heads):
                past = range(i + 1) if i in real[b] else []
                weights = survivors(q[b][h][i], k[b][h], past, torch.log(torch.sigmoid(gates[h])))
                weighted, total = torch.zeros_like(q[b][h][i]), sum(weights.values())
                for j, weight in weights.items():
                    weighted = weighted + weight * v[b][h][j]
                out[b][h].append(weighted / total if weights else weighted)
    penalty = orthogonality_loss(v, real) if module.orthogonality else torch.zeros((), dtype=x.dtype)
    return join(module.out_proj, out), penalty


def survivors(q: Tensor, k: list[Tensor], past: range | list[int], gate: Tensor) -> dict[int, Tensor]:
    """exp(score + distance * gate) of every key that survives, by its position; distance counts survivors."""
    weights: dict[int, Tensor] = {}
    for j in reversed(past):
        score = q @ k[j] / math.sqrt(len(q))
        if score > 0:
            weights[j] = torch.exp(score + (len(weights) + 1) * gate)
    return weights
