"""Slow reference of Linformer: softmax over K' = E K, then V' = F V, with E and F summed over real positions only."""

import math

import torch
from reference.heads import join, real_positions, split
from reference.orthogonality import orthogonality_loss
from torch import Tensor, nn


def attention(
    module: nn.Module, x: Tensor, memory: Tensor | None, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    """Output and penalty; a sample without keys gives zeros before the output projection."""
    assert not causal
    source = x if memory is None else memory
    q = split(module.q_proj, x, module.n_heads)
    k = split(module.k_proj, source, module.n_heads)
    v = split(module.v_proj, source, module.n_heads)
    real = real_positions(mask, source)
    of_keys = module.e_proj
    of_values = module.e_proj if module.f_proj is None else module.f_proj
    out = [[[] for _ in range(module.n_heads)] for _ in range(len(x))]
    for b in range(len(x)):
        for h in range(module.n_heads):
            keys = mixed(of_keys[h % len(of_keys)], k[b][h], real[b])
            values = mixed(of_values[h % len(of_values)], v[b][h], real[b])
            for query in q[b][h]:
                weights = torch.exp(keys @ query / math.sqrt(len(query)))
                out[b][h].append((weights / weights.sum()) @ values)
    penalty = orthogonality_loss(v, real) if module.orthogonality else torch.zeros((), dtype=x.dtype)
    return join(module.out_proj, out), penalty


def mixed(projection: Tensor, rows: list[Tensor], real: list[int]) -> Tensor:
    """sum_j projection[:, j] rows[j]^T."""
    total = torch.zeros(len(projection), len(rows[0]), dtype=projection.dtype)
    for j in real:
        total = total + torch.outer(projection[:, j], rows[j])
    return total
