"""Checks that outputs, penalties and gradients of an attention are finite."""

from contextlib import nullcontext

import torch
from torch import Tensor

from support.model_cases import Case, apply
from support.tensors import gradients, masks, place

WIDE = (1e-4, 1e-2, 1.0, 1e2, 1e4)
FORMATS = {
    "float32": (torch.float32, torch.float32, WIDE),
    "bfloat16": (torch.bfloat16, torch.bfloat16, WIDE),
    "bfloat16-autocast": (torch.float32, torch.bfloat16, WIDE),
    "float16": (torch.float16, torch.float16, (0.1, 1.0, 10.0)),
    "float16-autocast": (torch.float32, torch.float16, (0.1, 1.0, 10.0)),
}
OUTER = slice(None, None, 2)
"""the smallest, the largest and a middle one of these scales"""
LENGTHS = (70, 3, 1, 0)


def draw(scale: float, dtype: torch.dtype) -> Tensor:
    """Four rows of 70 positions: real up to LENGTHS, zero vectors among them."""
    x = scale * torch.randn(4, 70, 8, dtype=torch.float64)
    x[:, 1::5] = 0
    return x.to(dtype).requires_grad_()


def assert_finite(values: dict[str, Tensor], where: str) -> None:
    for name, value in values.items():
        if not value.isfinite().all():
            first = (~value.isfinite()).nonzero()[0]
            raise AssertionError(f"{name} is not finite: {where}; first{place(name, value, first.unbind())}")


def require_finite(case: Case, mode: str, is_brief: bool = False) -> None:
    """Outputs and gradients in every number format, at every scale that it can hold.

    Args:
        is_brief: at some of the scales, and without a mask in float32 only.
    """
    for name, (dtype, compute, scales) in FORMATS.items():
        attention = case.make().to(dtype)
        for scale in scales[OUTER] if is_brief else scales:
            x, memory = draw(scale, dtype), draw(scale, dtype) if mode == "cross" else None
            # the first row is without padding too
            for mask in (None, masks(LENGTHS, 70))[is_brief and name != "float32" :]:
                with torch.autocast("cpu", compute) if compute != dtype else nullcontext():
                    out, penalty = apply(attention, mode, x, memory, mask)
                values = {"out": out, "penalty": penalty}
                values |= gradients(out.float().mean() + penalty.float(), attention, x=x, memory=memory)
                assert_finite(values, f"{name}, inputs x {scale}, {'no' if mask is None else 'a'} mask")
