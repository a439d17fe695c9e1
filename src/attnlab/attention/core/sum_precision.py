"""Sums: in float32 at least, also under autocast, and squared lengths."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call


@contextmanager
def full_precision(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Autocast off, and half-precision tensors in float32: long sums lose too many digits in half precision."""
    kind = tensors[0].device.type
    # Entering autocast takes as long as a small operation.
    off = torch.autocast(device_type=kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()
    with off:
        yield tuple(t.float() if t.dtype in (torch.float16, torch.bfloat16) else t for t in tensors)


def squared_lengths(x: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest"]:
    """|x|^2, by the kernel for norms: on a CPU in a third to three quarters of the time of products and their sums."""
    return torch.linalg.vector_norm(x, dim=-1).square()


def saturated(x: Tensor, dtype: torch.dtype) -> Tensor:
    """x in another format, clamped to the range of float16, which sums without a denominator may exceed."""
    if dtype == torch.float16:
        x = x.clamp(-torch.finfo(dtype).max, torch.finfo(dtype).max)
    return x.to(dtype)


def projected(linear: nn.Linear, x: Tensor, dtype: torch.dtype) -> Tensor:
    """The linear map of x in a format; for float16 computed in float32, so that no intermediate sum overflows."""
    if dtype != torch.float16:
        return linear(x.to(dtype))
    with full_precision(x) as (x,):
        weights = {name: value.float() for name, value in linear.named_parameters()}
        return saturated(functional_call(linear, weights, x), dtype)
