"""Slow reference of long-short attention: one softmax over the keys of a window and over weighted means of the keys."""

import math

import torch
from reference.heads import join, project, real_positions, split
from reference.orthogonality import orthogonality_loss
from torch import Tensor, nn


def attention(
    module: nn.Module, x: Tensor, memory: Tensor | None, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    """Output and penalty; padded queries see no key."""
    assert memory is None, "no cross-attention"
    real, heads, out, width = real_positions(mask, x), range(module.n_heads), [], module.head_width
    v = split(module.v_proj, x, module.n_heads)
    for b in range(len(x)):
        queries, k_rows, v_rows, logits = (
            [project(linear, row) for row in x[b]]
            for linear in (module.q_proj, module.k_proj, module.v_proj, module.p_proj)
        )
        local_k, local_v = ([layer_norm(module.local_norm, row) for row in rows] for rows in (k_rows, v_rows))
        summed = (local_k, local_v) if module.normalized_projection else (k_rows, v_rows)
        means = {
            tuple(segment): [means_of(module, segment, logits, rows) for rows in summed]
            for segment in segments(module, real[b], causal)
        }
        sample = [[] for _ in heads]
        for i in range(len(queries)):
            keys = [(local_k[j], local_v[j]) for j in window(module, i, real[b], causal)] if i in real[b] else []
            for segment, (mean_k, mean_v) in means.items() if i in real[b] else []:
                if not causal or segment[-1] // module.segment_size < i // module.segment_size:
                    keys += zip(mean_k, mean_v, strict=True)
            for h in heads:
                part = slice(h * width, (h + 1) * width)
                sample[h].append(softmax_sum(queries[i][part], [(key[part], value[part]) for key, value in keys]))
        out.append(sample)
    penalty = orthogonality_loss(v, real) if module.orthogonality else torch.zeros((), dtype=x.dtype)
    return join(module.out_proj, out), penalty


def window(module: nn.Module, i: int, real: list[int], causal: bool) -> list[int]:
    """The last w positions, or the query's segment of w and w/2 (at least 1) more positions on either side."""
    w = module.window_size
    if causal:
        return [j for j in real if i - w < j <= i]
    first, more = i // w * w, max(w // 2, 1)
    return [j for j in real if first - more <= j < first + w + more]


def segments(module: nn.Module, real: list[int], causal: bool) -> list[list[int]]:
    """Positions averaged together: all of them, or full segments in the causal form."""
    if not causal:
        return [real] if real else []
    size = module.segment_size
    return [real[first : first + size] for first in range(0, len(real) - size + 1, size)]


def means_of(module: nn.Module, segment: list[int], logits: list[Tensor], rows: list[Tensor]) -> list[Tensor]:
    """r rows, every head's part weighted by its own softmax over the segment, normalised over the full width."""
    collected = []
    for column in range(module.rank):
        parts = []
        for h in range(module.n_heads):
            exps = torch.exp(torch.stack([logits[j] for j in segment])[:, h * module.rank + column])
            part = slice(h * module.head_width, (h + 1) * module.head_width)
            parts.append(exps @ torch.stack([rows[j] for j in segment])[:, part] / exps.sum())
        collected.append(layer_norm(module.global_norm, torch.cat(parts)))
    return collected


def softmax_sum(query: Tensor, keys: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Values weighted by the softmax of scaled products."""
    if not keys:
        return torch.zeros_like(query)
    exps = torch.exp(torch.stack([key for key, _ in keys]) @ query / math.sqrt(len(query)))
    return exps @ torch.stack([value for _, value in keys]) / exps.sum()


def layer_norm(norm: nn.LayerNorm, row: Tensor) -> Tensor:
    centred = row - row.mean()
    return norm.weight * centred / torch.sqrt((centred * centred).mean() + norm.eps) + norm.bias
