"""Slow reference of compositional attention: every search reads R values at every position and weighs the results."""

import math

import torch
from reference.heads import placed, project, real_positions, split
from reference.orthogonality import orthogonality_loss
from torch import Tensor, nn


def attention(
    module: nn.Module, x: Tensor, memory: Tensor | None, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    """Output and penalty; padded queries see no key."""
    source = x if memory is None else memory
    q = split(module.q_proj, x, module.n_heads)
    k = split(module.k_proj, source, module.n_heads)
    v = split(module.v_proj, source, module.retrievals)
    real = real_positions(mask, source)
    out = []
    for b in range(len(x)):
        rows = []
        searches = [placed(module.positions, s, q[b][s], k[b][s], causal) for s in range(module.n_heads)]
        values = [torch.stack([head[j] for head in v[b]]) for j in range(source.shape[1])]
        for i in range(x.shape[1]):
            seen = [j for j in real[b] if j <= i or not causal] if memory is not None or i in real[b] else []
            queries = project(module.retrieval_query_proj, x[b, i]).chunk(module.n_heads)
            taken = []
            for s in range(module.n_heads):
                turned, keys, added = searches[s]
                results = search(turned[i], keys, values, {j: added(i, j) for j in seen})
                weights = softmax([score(module, queries[s], result) for result in results])
                taken.append(sum(w * result for w, result in zip(weights, results, strict=True)))
            rows.append(project(module.out_proj, torch.cat(taken)))
        out.append(torch.stack(rows))
    penalty = orthogonality_loss(v, real) if module.orthogonality else torch.zeros((), dtype=x.dtype)
    return torch.stack(out), penalty


def search(q: Tensor, k: list[Tensor], v: list[Tensor], added: dict[int, Tensor | float]) -> Tensor:
    """sum_j softmax(q . k_j / sqrt(D) + added_j) v_j over keys j of `added`, one row a retrieval; zeros without any."""
    result = torch.zeros_like(v[0])
    for weight, j in zip(softmax([q @ k[j] / math.sqrt(len(q)) + added[j] for j in added]), added, strict=True):
        result = result + weight * v[j]
    return result


def score(module: nn.Module, query: Tensor, result: Tensor) -> Tensor:
    """How well a result fits a retrieval query."""
    if module.scorer == "mlp":
        return project(module.score_proj, torch.cat((query, result)))[0]
    return query @ project(module.retrieval_key_proj, result) / math.sqrt(len(query))


def softmax(scores: list[Tensor]) -> list[Tensor]:
    """exp(s_r) / sum of them."""
    powers = [torch.exp(value) for value in scores]
    total = sum(powers)
    return [power / total for power in powers]
