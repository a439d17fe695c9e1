"""Slow reference of recurrences: every position of every head in plain loops, and the layer around it."""

import math
from collections.abc import Callable

import torch
from reference.heads import Heads, project, real_positions, reference_of
from reference.orthogonality import orthogonality_loss
from reference.qk_norm import normalize
from torch import Tensor, nn

Gates = Callable[[int, int, int], tuple[Tensor | float, Tensor | float, Tensor | float]]
"""(sample, head, position) -> decays of the state's rows, write strength (None: no delta rule), factor of the value"""


def attention(module: nn.Module, x: Tensor, mask: Tensor | None, causal: bool, gates: Gates) -> tuple[Tensor, Tensor]:
    """Output and penalty of a layer with these gates."""
    real, n_heads = real_positions(mask, x), module.n_heads
    # padding is replaced by zeros on entry
    x = x if mask is None else x * mask[:, :, None]
    q, k, v = (mixed(module, kind, x) for kind in "qkv")
    samples = []
    for b in range(len(x)):
        heads = []
        for h in range(n_heads):
            queries, keys = placed(module.positions, h, q[b][h], k[b][h])
            past = recurrence(queries, keys, v[b][h], real[b], lambda t, b=b, h=h: gates(b, h, t))
            if not causal:
                future = recurrence(queries, keys, v[b][h], real[b][::-1], lambda t, b=b, h=h: gates(b, h, t))
                past = [one + other for one, other in zip(past, future, strict=True)]
            skip = getattr(module, "skip", None)
            heads.append(
                [o if skip is None else o + skip[h, 0, 0] * value for o, value in zip(past, v[b][h], strict=True)]
            )
        samples.append(torch.stack([finished(module, x[b, t], [head[t] for head in heads]) for t in range(x.shape[1])]))
    penalty = orthogonality_loss(v, real) if module.orthogonality else torch.zeros((), dtype=x.dtype)
    return torch.stack(samples), penalty


def recurrence(
    q: list[Tensor], k: list[Tensor], v: list[Tensor], order: list[int], gates: Callable[[int], tuple]
) -> list[Tensor]:
    """The outputs of one head, which reads its positions in an order; zeros where it reads none."""
    state = torch.zeros(len(k[0]), len(v[0]), dtype=v[0].dtype)
    out = [torch.zeros_like(row) for row in v]
    for t in order:
        decay, strength, factor = gates(t)
        state = (decay * torch.ones_like(k[t]))[:, None] * state
        value = factor * v[t] if strength is None else strength * (v[t] - k[t] @ state)
        state = state + k[t][:, None] * value[None, :]
        out[t] = q[t] @ state / math.sqrt(len(k[t]))
    return out


def mixed(module: nn.Module, kind: str, x: Tensor) -> Heads:
    """Queries, keys or values of every sample and head: projected, convolved, activated, normalised."""
    linear, norm = getattr(module, f"{kind}_proj"), getattr(module, f"{kind}_norm", None)
    convolution, parts = getattr(module, f"{kind}_convolution", None), module.parts
    heads = []
    for sample in x:
        rows = [project(linear, row) for row in sample]
        if convolution is not None:
            rows = [convolved(convolution.weight, rows, t) for t in range(len(rows))]
        rows = [row.chunk(module.n_heads) for row in rows]
        heads.append(
            [
                [changed(row[h], norm, parts.activation, module.norm_first) for row in rows]
                for h in range(module.n_heads)
            ]
        )
    return heads


def convolved(weight: Tensor, rows: list[Tensor], t: int) -> Tensor:
    """sum_w weight_w row_(t - width + 1 + w)"""
    width, total = len(weight), torch.zeros_like(rows[t])
    for w in range(width):
        if t - width + 1 + w >= 0:
            total = total + weight[w] * rows[t - width + 1 + w]
    return total


def changed(row: Tensor, norm: nn.Module | None, activation: bool, norm_first: bool) -> Tensor:
    """One query, key or value: x sigmoid(x), and the norm before or after it."""
    if norm is not None and norm_first:
        row = normalize(norm.kind, row, norm.gain, norm.eps)
    row = row * torch.sigmoid(row) if activation else row
    return row if norm is None or norm_first else normalize(norm.kind, row, norm.gain, norm.eps)


def placed(positions: nn.Module | None, h: int, q: list[Tensor], k: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Queries and keys of head h at their positions."""
    reference = reference_of(positions)
    return (
        [reference.query(positions, h, t, row) for t, row in enumerate(q)],
        [reference.key(positions, h, t, row) for t, row in enumerate(k)],
    )


def finished(module: nn.Module, row: Tensor, heads: list[Tensor]) -> Tensor:
    """The output at one position: norm of every head, gate, projection."""
    if module.parts.output_norm:
        heads = [module.output_gain * o / torch.sqrt((o * o).mean() + 1e-5) for o in heads]
    joined = torch.cat(heads)
    if module.parts.output_gate != "none":
        logits = chained(module.gate_proj, row)
        joined = joined * torch.sigmoid(logits) * (logits if module.parts.output_gate == "silu" else 1.0)
    return project(module.out_proj, joined)


def chained(maps: nn.Module, row: Tensor) -> Tensor:
    """One linear map, or two in sequence."""
    for linear in maps if isinstance(maps, nn.Sequential) else [maps]:
        row = project(linear, row)
    return row


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x))"""
    return torch.log(1 + torch.exp(x))
