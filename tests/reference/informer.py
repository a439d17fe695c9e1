"""Slow reference of ProbSparse attention: softmax(q_i . k_j / sqrt(D)) v_j for chosen queries, else the mean of v_j."""

import math

import torch
from reference.heads import join, real_positions, split
from reference.orthogonality import orthogonality_loss
from torch import Tensor, nn


def attention(
    module: nn.Module, x: Tensor, memory: Tensor | None, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    """Output and penalty; padded queries see no key."""
    assert memory is None and not causal
    q, k, v = (split(proj, x, module.n_heads) for proj in (module.q_proj, module.k_proj, module.v_proj))
    real = real_positions(mask, x)
    out = [[[torch.zeros_like(row) for row in head] for head in sample] for sample in v]
    for b in range(len(x)):
        for h in range(module.n_heads):
            active = chosen(module, h, q[b][h], k[b][h], real[b])
            mean = sum((v[b][h][j] for j in real[b]), torch.zeros_like(v[b][h][0])) / max(1, len(real[b]))
            for i in real[b]:
                out[b][h][i] = softmax_row(q[b][h][i], k[b][h], v[b][h], real[b]) if i in active else mean
    penalty = orthogonality_loss(v, real) if module.orthogonality else torch.zeros((), dtype=x.dtype)
    return join(module.out_proj, out), penalty


def softmax_row(q: Tensor, k: list[Tensor], v: list[Tensor], real: list[int]) -> Tensor:
    """Attention of one query to all real keys."""
    total, weighted = torch.zeros((), dtype=q.dtype), torch.zeros_like(v[0])
    for j in real:
        weight = torch.exp(q @ k[j] / math.sqrt(len(q)))
        total, weighted = total + weight, weighted + weight * v[j]
    return weighted / total


def chosen(module: nn.Module, head: int, q: list[Tensor], k: list[Tensor], real: list[int]) -> set[int]:
    """Positions of the queries with the largest max - mean over the sampled keys, the first of those that are equal."""
    n = len(real)
    if n == 0:
        return set()
    count = min(n, module.factor * max(1, math.ceil(math.log(n))))
    sample = [real[n * draw // 2**31] for draw in module.draws[head, :count].tolist()]
    scores = {i: [(q[i] @ k[j]).item() for j in sample] for i in real}
    unit = math.sqrt(torch.finfo(q[0].dtype).eps) * max(abs(score) for row in scores.values() for score in row)
    terms = count if module.mean_over == "sample" else n
    measure = {i: round((max(row) - sum(row) / terms) / unit) if unit else 0 for i, row in scores.items()}
    return set(sorted(real, key=lambda i: (-measure[i], i))[:count])
