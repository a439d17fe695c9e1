"""Sums over all earlier chunks, as products with triangular matrices.

`torch.cumsum` has no deterministic kernel on a GPU. On a CPU the products are not slower.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

AT_ONCE = 32
"""limit of chunks in one product; more are summed in groups first, of about the root of their number"""


def sums_before(x: Float[Tensor, "*rest T F C"]) -> Float[Tensor, "*rest T F C"]:
    """The sum of all matrices before each one: zeros, x_1, x_1 + x_2, ...

    A product with a zero, not a difference, leaves a later matrix out: its rounding errors reach no earlier sum.
    """
    return rows_before(x.flatten(-2)).unflatten(-1, x.shape[-2:])


def rows_before(x: Float[Tensor, "*rest T K"]) -> Float[Tensor, "*rest T K"]:
    """The sum of all vectors before each one."""
    length = x.shape[-2]
    if length <= AT_ONCE:
        return _earlier(length, x) @ x
    size = math.isqrt(length - 1) + 1
    groups = F.pad(x, (0, 0, 0, -length % size)).unflatten(-2, (-1, size))
    sums = _earlier(size, x) @ groups + rows_before(groups.sum(-2))[..., None, :]
    return sums.flatten(-3, -2)[..., :length, :]


def _earlier(length: int, like: Tensor) -> Float[Tensor, "T T"]:
    """1 where a column is before the row."""
    return torch.ones(length, length, dtype=like.dtype, device=like.device).tril(-1)
