"""Sums over all earlier chunks, as products with triangular matrices.

`torch.cumsum` has no deterministic kernel on a GPU. The products are also faster on a CPU.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

GROUP = 32
"""chunks that one product sums; groups of more chunks are summed first"""


def sums_before(x: Float[Tensor, "*rest T F C"]) -> Float[Tensor, "*rest T F C"]:
    """The sum of all matrices before each one: zeros, x_1, x_1 + x_2, ...

    A product with a zero, not a difference, leaves a later matrix out: its rounding errors reach no earlier sum.
    """
    return _rows_before(x.flatten(-2)).unflatten(-1, x.shape[-2:])


def _rows_before(x: Float[Tensor, "*rest T K"]) -> Float[Tensor, "*rest T K"]:
    length = x.shape[-2]
    if length <= GROUP:
        return _earlier(length, x) @ x
    groups = F.pad(x, (0, 0, 0, -length % GROUP)).unflatten(-2, (-1, GROUP))
    sums = _earlier(GROUP, x) @ groups + _rows_before(groups.sum(-2))[..., None, :]
    return sums.flatten(-3, -2)[..., :length, :]


def _earlier(length: int, like: Tensor) -> Float[Tensor, "T T"]:
    """1 where a column is before the row."""
    return torch.ones(length, length, dtype=like.dtype, device=like.device).tril(-1)
