"""Slow reference of feature fixation: linear attention with features that are gated by their position."""

import torch
from reference.heads import Heads, project, split
from reference.linear import attention_on_features, features
from torch import Tensor, nn


def attention(
    module: nn.Module, x: Tensor, memory: Tensor | None, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    """Output and penalty; padded queries see no key."""
    q = fixed(module, module.q_gate, module.q_norm, x, 0)
    k = fixed(module, module.k_gate, module.k_norm, x if memory is None else memory, 1)
    return attention_on_features(module, q, k, x, memory, mask, causal)


def fixed(module: nn.Module, gate: nn.Linear, norm: nn.Module, x: Tensor, part: int) -> Heads:
    """Features of queries (part 0) or keys (1), times gates that see the position's query, key and value."""
    parts = [split(projection, x, module.n_heads) for projection in (module.q_proj, module.k_proj, module.v_proj)]
    heads = [[[] for _ in range(module.n_heads)] for _ in range(len(x))]
    for b in range(len(x)):
        for h in range(module.n_heads):
            for rows in zip(*(heads_of_part[b][h] for heads_of_part in parts), strict=True):
                seen = torch.cat((shifted_relu(rows[0]), shifted_relu(rows[1]), rows[2]))
                gates = [1 / (1 + torch.exp(-logit)) for logit in project(gate, seen)]
                heads[b][h].append(torch.stack(gates) * features(module, rows[part], norm, shifted_relu))
    return heads


def shifted_relu(row: Tensor) -> Tensor:
    """max(x, 0) + 1/sqrt(D)"""
    zero = torch.zeros((), dtype=row.dtype)
    return torch.stack([torch.maximum(value, zero) + len(row) ** -0.5 for value in row])
