"""Slow reference of linear attention: out_i = sum_j s_ij v_j / (sum_j s_ij + eps), s_ij = phi(q_i) . phi(k_j);
with rotary positions the features are rotated in the numerator alone. Features may be of any number."""

from collections.abc import Callable
from functools import partial

import torch
from reference.heads import Heads, join, placed, real_positions, split
from reference.orthogonality import orthogonality_loss
from reference.qk_norm import normalize
from torch import Tensor, nn


def attention(
    module: nn.Module, x: Tensor, memory: Tensor | None, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    """Output and penalty; padded queries see no key."""
    return attention_with(module, x, memory, mask, causal, lambda h, row: elu_plus_one(row))


def attention_with(
    module: nn.Module,
    x: Tensor,
    memory: Tensor | None,
    mask: Tensor | None,
    causal: bool,
    query_map: Callable[[int, Tensor], Tensor],
    key_map: Callable[[int, Tensor], Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Output and penalty of a feature map: (head, one query or key) -> features; keys have the queries' by default."""

    def mapped(heads: Heads, norm: nn.Module, phi: Callable[[int, Tensor], Tensor], scale: float) -> Heads:
        return [
            [[features(module, scale * row, norm, partial(phi, h)) for row in rows] for h, rows in enumerate(sample)]
            for sample in heads
        ]

    q = split(module.q_proj, x, module.n_heads)
    k = split(module.k_proj, x if memory is None else memory, module.n_heads)
    q, k = mapped(q, module.q_norm, query_map, module.scale), mapped(k, module.k_norm, key_map or query_map, 1.0)
    return attention_on_features(module, q, k, x, memory, mask, causal)


def attention_on_features(
    module: nn.Module, q: Heads, k: Heads, x: Tensor, memory: Tensor | None, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    """Output and penalty, from the features of queries and keys."""
    source = x if memory is None else memory
    v, real = split(module.v_proj, source, module.n_heads), real_positions(mask, source)
    out = [[[] for _ in range(module.n_heads)] for _ in range(len(x))]
    for b in range(len(x)):
        for h in range(module.n_heads):
            queries, keys, _ = placed(module.positions, h, q[b][h], k[b][h], causal)
            for i in range(x.shape[1]):
                total, weighted = torch.zeros((), dtype=x.dtype), torch.zeros_like(v[b][h][0])
                seen = [j for j in real[b] if j <= i or not causal] if memory is not None or i in real[b] else []
                for j in seen:
                    total = total + q[b][h][i] @ k[b][h][j]
                    weighted = weighted + queries[i] @ keys[j] * v[b][h][j]
                out[b][h].append(weighted / (total + module.eps) if module.denominator else weighted)
    penalty = orthogonality_loss(v, real) if module.orthogonality else torch.zeros((), dtype=x.dtype)
    return join(module.out_proj, out), penalty


def features(module: nn.Module, row: Tensor, norm: nn.Module, phi: Callable[[Tensor], Tensor]) -> Tensor:
    """phi of one query or key of one head, normalised before or after it."""
    if module.norm_first:
        return phi(normalize(norm.kind, row, norm.gain, norm.eps))
    return normalize(norm.kind, phi(row), norm.gain, norm.eps)


def elu_plus_one(row: Tensor) -> Tensor:
    """x + 1 above 0, exp(x) below."""
    return torch.stack([value + 1 if value > 0 else torch.exp(value) for value in row])
