"""Slow reference of TransNormer: undivided sums, or attention within blocks, and the norm over all heads."""

import math

import torch
from reference.heads import Heads, join, project, real_positions, split
from reference.linear import elu_plus_one
from reference.orthogonality import orthogonality_loss
from reference.qk_norm import normalize
from torch import Tensor, nn

EPS = 1e-8


def attention(
    module: nn.Module, x: Tensor, memory: Tensor | None, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    """Output and penalty; padded queries see no key."""
    source = x if memory is None else memory
    q = split(module.q_proj, x, module.n_heads)
    k = split(module.k_proj, source, module.n_heads)
    v = split(module.v_proj, source, module.n_heads)
    real = real_positions(mask, source)
    in_blocks = type(module).__name__ == "DiagAttention"
    if not in_blocks:
        q, k = features(module, q, module.q_norm), features(module, k, module.k_norm)
    if module.lrpe is not None:
        q, k = (with_positions(module.lrpe, heads, module.block_size if in_blocks else math.inf) for heads in (q, k))
    out = [[[] for _ in range(module.n_heads)] for _ in range(len(x))]
    for b in range(len(x)):
        for h in range(module.n_heads):
            for i in range(x.shape[1]):
                seen = [j for j in real[b] if j <= i or not causal] if memory is not None or i in real[b] else []
                if in_blocks:
                    seen = [j for j in seen if j // module.block_size == i // module.block_size]
                weights = weights_of(module, q[b][h][i], [k[b][h][j] for j in seen])
                weighted = torch.zeros_like(v[b][h][0])
                for j, weight in zip(seen, weights, strict=True):
                    weighted = weighted + weight * v[b][h][j]
                out[b][h].append(weighted)
    penalty = orthogonality_loss(v, real) if module.orthogonality else torch.zeros((), dtype=x.dtype)
    if in_blocks and module.scores == "softmax":
        return join(module.out_proj, out), penalty
    return join_normed(module, out), penalty


def weights_of(module: nn.Module, q: Tensor, keys: list[Tensor]) -> list[Tensor]:
    """Weights of one query's keys."""
    scores = [q @ k for k in keys]
    if type(module).__name__ == "NormAttention":
        return scores
    scores = [score / math.sqrt(len(q)) for score in scores]
    if module.scores == "rela":
        return [score if score > 0 else 0.0 * score for score in scores]
    weights = [torch.exp(score) for score in scores]
    total = sum(weights)
    return [weight / total for weight in weights]


def features(module: nn.Module, heads: Heads, norm: nn.Module) -> Heads:
    """phi of queries or keys, normalised before or after it."""

    def of(row: Tensor) -> Tensor:
        if module.norm_first:
            return phi(module.feature_map, normalize(norm.kind, row, norm.gain, norm.eps))
        return normalize(norm.kind, phi(module.feature_map, row), norm.gain, norm.eps)

    return [[[of(row) for row in head] for head in sample] for sample in heads]


def phi(name: str, row: Tensor) -> Tensor:
    """1 + elu, elu, or relu."""
    if name == "relu":
        return torch.stack([value if value > 0 else 0.0 * value for value in row])
    return {"one_plus_elu": elu_plus_one(row), "elu": elu_plus_one(row) - 1}[name]


def with_positions(lrpe: nn.Module, heads: Heads, block_size: float) -> Heads:
    """Every row turned by its position within its block."""
    return [[[turned(lrpe, row, i % block_size) for i, row in enumerate(head)] for head in sample] for sample in heads]


def turned(lrpe: nn.Module, row: Tensor, position: float) -> Tensor:
    """Pairs of columns (2c, 2c + 1) as complex numbers, times exp(i position angle_c); reflected before that."""
    pairs = len(row) // 2
    angles = [torch.tensor(10000 ** (-c / pairs), dtype=row.dtype) for c in range(pairs)]
    if lrpe.mirror is not None:
        angles = lrpe.angles
        row = row - 2 * (row @ lrpe.mirror) * lrpe.mirror
    columns = []
    for c in range(pairs):
        cos, sin = torch.cos(position * angles[c]), torch.sin(position * angles[c])
        columns += [row[2 * c] * cos - row[2 * c + 1] * sin, row[2 * c] * sin + row[2 * c + 1] * cos]
    return torch.stack(columns + list(row[2 * pairs :]))


def join_normed(module: nn.Module, heads: Heads) -> Tensor:
    """Heads side by side, normed, through the output projection."""
    samples = []
    for sample in heads:
        rows = [torch.cat([head[i] for head in sample]) for i in range(len(sample[0]))]
        samples.append(torch.stack([project(module.out_proj, normed(module, row)) for row in rows]))
    return torch.stack(samples)


def normed(module: nn.Module, row: Tensor) -> Tensor:
    """x / (rms(x) + eps), or layer norm."""
    layer_norm = getattr(module, "layer_norm", None)
    if layer_norm is not None:
        centred = row - sum(row) / len(row)
        spread = torch.sqrt(sum(value**2 for value in centred) / len(row) + layer_norm.eps)
        return centred / spread * layer_norm.weight + layer_norm.bias
    # The root of 0 has no slope; x over eps is then what is left of the formula.
    rms = torch.sqrt(sum(value**2 for value in row) / len(row)) if row.any() else 0.0
    return row / (rms + EPS)
