"""Slow reference of InLine attention: w_ij = s_ij - mean of s_i + 1/n over the n keys that a query sees."""

import torch
from reference.heads import join, real_positions, split
from reference.orthogonality import orthogonality_loss
from reference.qk_norm import normalize
from torch import Tensor, nn


def attention(
    module: nn.Module, x: Tensor, memory: Tensor | None, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    """Output and penalty; padded queries see no key."""
    source = x if memory is None else memory
    q = split(module.q_proj, x, module.n_heads)
    k = split(module.k_proj, source, module.n_heads)
    v = split(module.v_proj, source, module.n_heads)
    real = real_positions(mask, source)
    out = [[[] for _ in range(module.n_heads)] for _ in range(len(x))]
    for b in range(len(x)):
        for h in range(module.n_heads):
            queries = [features(module, row, module.q_norm) for row in q[b][h]]
            keys = [features(module, row, module.k_norm) for row in k[b][h]]
            for i in range(x.shape[1]):
                seen = [j for j in real[b] if j <= i or not causal] if memory is not None or i in real[b] else []
                scores = [queries[i] @ keys[j] / len(seen) / len(queries[i]) ** 0.5 for j in seen]
                mean = sum(scores) / max(1, len(seen))
                weighted = [(s - mean + 1 / len(seen)) * v[b][h][j] for s, j in zip(scores, seen, strict=True)]
                out[b][h].append(sum(weighted, start=torch.zeros_like(v[b][h][0])))
                if hasattr(module, "second") and seen:
                    out[b][h][i] = out[b][h][i] + convolution(module, h, i, x[b, seen], v[b][h], real[b], causal)
    penalty = orthogonality_loss(v, real) if module.orthogonality else torch.zeros((), dtype=x.dtype)
    return join(module.out_proj, out), penalty


def features(module: nn.Module, row: Tensor, norm: nn.Module) -> Tensor:
    """phi of one query or key of one head, normalised before or after it."""
    if module.norm_first:
        return module.feature_map(normalize(norm.kind, row, norm.gain, norm.eps))
    return normalize(norm.kind, module.feature_map(row), norm.gain, norm.eps)


def convolution(
    module: nn.Module, h: int, i: int, tokens: Tensor, values: list[Tensor], real: list[int], causal: bool
) -> Tensor:
    """Values of the neighbours of i, those before it in the causal form, by the kernels of the mean token."""
    width = len(values[0])
    mean = (sum(tokens) / len(tokens))[h * width : (h + 1) * width]
    hidden = [gelu(value) for value in part(module.first, h, width) @ mean + module.first.bias[h * width :][:width]]
    made = part(module.second, h, 3 * width) @ torch.stack(hidden) + module.second.bias[3 * h * width :][: 3 * width]
    total = torch.zeros_like(values[0])
    for tap, j in enumerate(range(i - 2, i + 1) if causal else range(i - 1, i + 2)):
        if j in real:
            total = total + torch.stack([made[3 * c + tap] * values[j][c] for c in range(width)])
    return total


def part(layer: nn.Module, h: int, size: int) -> Tensor:
    """Weights of a head."""
    return layer.weight[h * size : (h + 1) * size, :, 0]


def gelu(value: Tensor) -> Tensor:
    """x times the probability that a normal variable is below x."""
    return value * (1 + torch.erf(value / 2**0.5)) / 2
