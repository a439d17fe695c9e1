"""Parts of the slow references of attention by way of landmarks (Nystromformer, Skyformer).

Padding is cut off first; then one query or one key after another. Only the m x m inverse is iterated with matrices.
"""

from collections.abc import Callable

import torch
from reference.heads import Heads, join, real_positions, split
from reference.orthogonality import orthogonality_loss
from torch import Tensor, nn

Rows = list[Tensor]
"""A vector for each position, or each landmark."""


def by_head(
    one_head: Callable[[nn.Module, int, Rows, Rows, Rows], Rows], module: nn.Module, x: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Output and penalty; padded positions give zeros."""
    q, k, v = (split(linear, x, module.n_heads) for linear in (module.q_proj, module.k_proj, module.v_proj))
    real = real_positions(mask, x)
    out: Heads = []
    for b in range(len(x)):
        heads = []
        for h in range(module.n_heads):
            rows = [torch.zeros_like(row) for row in v[b][h]]
            if real[b]:
                result = one_head(module, h, *([head[b][h][i] for i in real[b]] for head in (q, k, v)))
                rows[: len(result)] = result
            heads.append(rows)
        out.append(heads)
    penalty = orthogonality_loss(v, real) if module.orthogonality else torch.zeros((), dtype=x.dtype)
    return join(module.out_proj, out), penalty


def segments(n: int, number: int) -> list[list[int]]:
    """Position p of n is in segment floor(p m / n), with m the smaller of n and `number`."""
    m = min(n, number)
    parts: list[list[int]] = [[] for _ in range(m)]
    for p in range(n):
        parts[p * m // n].append(p)
    return parts


def iterated(matrix: Tensor, iterations: int, largest: Tensor | None = None) -> Tensor:
    """Z <- Z (13 I - M Z (15 I - M Z (7 I - M Z))) / 4 from Z = M^T / (largest column sum of M, or a given one)."""
    eye = torch.eye(len(matrix), dtype=matrix.dtype)
    inverse = matrix.T / (largest_column_sum(matrix) if largest is None else largest)
    for _ in range(iterations):
        step = matrix @ inverse
        inverse = inverse @ (13 * eye - step @ (15 * eye - step @ (7 * eye - step))) / 4
    return inverse


def largest_column_sum(matrix: Tensor) -> Tensor:
    """The largest sum of a column."""
    return torch.stack([column.sum() for column in matrix.T]).max()
