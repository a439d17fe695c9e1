"""Slow reference of attention on cosine similarities: sum_j softmax_j(t cos(q_i, k_j)) v_j, in plain loops."""

from itertools import product

import torch
from reference.heads import join, real_positions, split
from reference.orthogonality import orthogonality_loss
from torch import Tensor, nn


def attention(
    module: nn.Module, x: Tensor, memory: Tensor | None, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    """Output and penalty; padded queries see no key."""
    source = x if memory is None else memory
    q = split(module.q_proj, x, module.n_heads)
    k, v = (split(projection, source, module.n_heads) for projection in (module.k_proj, module.v_proj))
    real = real_positions(mask, source)
    out = [[[] for _ in range(module.n_heads)] for _ in range(len(x))]
    for b, h, i in product(range(len(x)), range(module.n_heads), range(x.shape[1])):
        seen = [j for j in real[b] if j <= i or not causal] if memory is not None or i in real[b] else []
        weights = [torch.exp(module.temperature[h, 0, 0] * cosine(q[b][h][i], k[b][h][j])) for j in seen]
        total = sum(weights)
        weighted = [weight / total * v[b][h][j] for weight, j in zip(weights, seen, strict=True)]
        out[b][h].append(sum(weighted, start=torch.zeros_like(q[b][h][i])))
    penalty = orthogonality_loss(v, real) if module.orthogonality else torch.zeros((), dtype=x.dtype)
    return join(module.out_proj, out), penalty


def cosine(q: Tensor, k: Tensor) -> Tensor:
    """Cosine similarity of two rows, with 1e-6 added to squared lengths."""
    return (q @ k) / torch.sqrt((q @ q + 1e-6) * (k @ k + 1e-6))
