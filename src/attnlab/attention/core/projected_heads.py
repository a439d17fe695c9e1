"""Projections of sequences, split into heads: an axis before the positions."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.kernels.direct_function import DirectFunction
from attnlab.kernels.linear_map import joined


def projected_heads(
    x: Float[Tensor, "B N E"], maps: Sequence[nn.Linear], n_heads: int
) -> tuple[Float[Tensor, "B H N D"], ...]:
    """Heads of several projections of x, by one matrix product where it pays."""
    together = joined(x, maps)
    if together is None:
        return tuple(heads_of(projection(x), n_heads)[0] for projection in maps)
    return heads_of(together, n_heads, len(maps))


def heads_of(x: Float[Tensor, "B N PHD"], n_heads: int, parts: int = 1) -> tuple[Float[Tensor, "B H N D"], ...]:
    """Heads of the parts of x (queries, keys, values side by side).

    On a CPU they are copied, so that a head lies in order in memory: one copy instead of one in every later product,
    and no slow passes over rows that lie apart.
    """
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        # The compiler and fused kernels do with views.
        return _views(x, n_heads, parts)
    if not torch.is_grad_enabled():
        return _CopiedHeads.forward(x, n_heads, parts)
    return _CopiedHeads.apply(x, n_heads, parts)


def _views(x: Tensor, n_heads: int, parts: int) -> tuple[Tensor, ...]:
    return x.unflatten(-1, (parts, n_heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)


class _CopiedHeads(DirectFunction):
    """Copies of the heads; the gradient is gathered head by head, in 0.5 to 0.8 of the time of part by part."""

    @staticmethod
    def forward(x: Tensor, n_heads: int, parts: int) -> tuple[Tensor, ...]:
        return tuple(view.contiguous() for view in _views(x, n_heads, parts))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int, int], output: tuple[Tensor, ...]) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return torch.cat([head for grad in grads for head in grad.unbind(1)], -1), None, None
