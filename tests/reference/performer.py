"""Slow reference of Performer: out_i = sum_j s_ij v_j / (sum_j s_ij + phi(q_i) . eps), s_ij = phi(q_i) . phi(k_j).

softmax: phi(x)_f = (exp(w_f . x~ - |x~|^2 / 2 - shift) + eps') / sqrt(F); relu: phi(x)_f = max(w_f . x~, 0) + eps'.
The shift of a query is the largest w_f . x~; that of keys 0, or the largest over features and real positions; with
detach_stabilizer both are constants. x~ = x / D^(1/4), or x / D^(1/2) with scaled_twice.
"""

import torch
from reference.heads import join, real_positions, reference_of, split
from reference.orthogonality import orthogonality_loss
from reference.qk_norm import normalize
from torch import Tensor, nn

LARGEST_EXPONENT = 40.0


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
            keys = key_features(module, k[b][h], real[b])
            at = reference_of(module.positions)
            turned = {j: at.key(module.positions, h, j, key) for j, key in keys.items()}
            for i in range(x.shape[1]):
                query = query_features(module, q[b][h][i])
                seen = [j for j in real[b] if j <= i or not causal] if memory is not None or i in real[b] else []
                turned_query = at.query(module.positions, h, i, query)
                out[b][h].append(weighted_mean(module, (query, keys), (turned_query, turned), v[b][h], seen))
    penalty = orthogonality_loss(v, real) if module.orthogonality else torch.zeros((), dtype=x.dtype)
    return join(module.out_proj, out), penalty


def weighted_mean(
    module: nn.Module,
    pair: tuple[Tensor, dict[int, Tensor]],
    turned: tuple[Tensor, dict[int, Tensor]],
    values: list[Tensor],
    seen: list[int],
) -> Tensor:
    """The weighted mean of the values that a query sees, or their weighted sum; 0 where it sees none.

    pair: the query and the keys; turned: both at their positions.
    """
    (query, keys), (turned_query, turned_keys) = pair, turned
    weighted, total = torch.zeros_like(values[0]), module.eps * sum(query)
    for j in seen:
        total = total + query @ keys[j]
        weighted = weighted + turned_query @ turned_keys[j] * values[j]
    return weighted / total if module.denominator and seen else weighted


def query_features(module: nn.Module, row: Tensor) -> Tensor:
    """phi of one query of one head, normalised before or after it."""
    row = before(module, row, module.q_norm)
    inner = products(module, row)
    return after(module, features(module, row, inner, constant(module, max(inner))), module.q_norm)


def key_features(module: nn.Module, rows: list[Tensor], real: list[int]) -> dict[int, Tensor]:
    """phi of the real keys of one head of one sample, normalised before or after it."""
    rows = {j: before(module, rows[j], module.k_norm) for j in real}
    inner = {j: products(module, row) for j, row in rows.items()}
    largest = max((value for values in inner.values() for value in values), default=None)
    shift = constant(module, largest) if module.key_stabilizer == "sequence" and real else None
    return {j: after(module, features(module, rows[j], inner[j], shift), module.k_norm) for j in real}


def constant(module: nn.Module, shift: Tensor) -> Tensor:
    """The shift, a number without gradient where the module says so."""
    return torch.tensor(shift.item(), dtype=shift.dtype) if module.detach_stabilizer else shift


def products(module: nn.Module, row: Tensor) -> list[Tensor]:
    """w . x~ for every feature's w."""
    return [w @ scaled(module, row) for w in module.projection]


def scaled(module: nn.Module, row: Tensor) -> Tensor:
    """x~, divided by D^(1/4) once or twice."""
    once = row / len(row) ** 0.25
    return once / len(row) ** 0.25 if module.scaled_twice else once


def features(module: nn.Module, row: Tensor, inner: list[Tensor], shift: Tensor | None) -> Tensor:
    """phi of one row from its products; without a shift its exponents are cut off at a constant."""
    if module.kernel == "relu":
        return torch.stack([value.clamp(min=0.0) + module.feature_eps for value in inner])
    half = sum(value * value for value in scaled(module, row)) / 2
    exponents = [
        value - half - shift if shift is not None else (value - half).clamp(max=LARGEST_EXPONENT) for value in inner
    ]
    return torch.stack([torch.exp(value) + module.feature_eps for value in exponents]) / len(inner) ** 0.5


def before(module: nn.Module, row: Tensor, norm: nn.Module) -> Tensor:
    return normalize(norm.kind, row, norm.gain, norm.eps) if module.norm_first else row


def after(module: nn.Module, values: Tensor, norm: nn.Module) -> Tensor:
    return values if module.norm_first else normalize(norm.kind, values, norm.gain, norm.eps)
