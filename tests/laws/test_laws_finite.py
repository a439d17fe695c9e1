"""Law 4: outputs, penalties and gradients are finite for all inputs within the range of a number format."""

import copy
from contextlib import nullcontext
from itertools import product

import pytest
import torch
from support.finite_checks import FORMATS, LENGTHS, OUTER, WIDE, assert_finite, draw, require_finite
from support.model_cases import Case, apply, every_attention
from support.tensors import gradients, masks
from torch import Tensor

from attnlab.attention.base import Attention


@every_attention("finite")
def test_forward_and_backward_are_finite(case: Case, mode: str) -> None:
    require_finite(case, mode, is_brief=True)


@pytest.mark.slow
@every_attention("finite")
def test_forward_and_backward_are_finite_at_every_scale(case: Case, mode: str) -> None:
    require_finite(case, mode)


@every_attention("finite", normalized=False)
def test_constant_inputs_are_finite(case: Case, mode: str) -> None:
    """Also with projections that send everything to 0, where norms and cosines have no direction."""
    for constant, shrink in ((0.0, 1.0), (1.0, 1.0), (-1.0, 1.0), (1.0, 0.0)):
        attention = case.make()
        with torch.no_grad():
            for parameter in attention.parameters():
                parameter *= shrink
        x = torch.full((4, 70, 8), constant, dtype=torch.float64, requires_grad=True)
        memory = torch.full_like(x, constant, requires_grad=True) if mode == "cross" else None
        for mask in (None, masks(LENGTHS, 70), masks([0] * 4, 70)):
            out, penalty = apply(attention, mode, x, memory, mask)
            values = {"out": out, "penalty": penalty}
            values |= gradients(out.mean() + penalty, attention, x=x, memory=memory)
            assert_finite(values, f"inputs {constant}, parameters x {shrink}")


@every_attention("finite", modes=["causal", "cross"])
def test_steps_are_finite(case: Case, mode: str) -> None:
    for name, (dtype, compute, scales) in FORMATS.items():
        attention = case.make().to(dtype)
        for scale in scales[OUTER]:
            x, memory = draw(scale, dtype), draw(scale, dtype) if mode == "cross" else None
            with torch.no_grad(), torch.autocast("cpu", compute) if compute != dtype else nullcontext():
                state = attention.init_state(4, memory, None if memory is None else masks(LENGTHS, 70))
                for position in range(3):
                    out, state = attention.step(x[:, position : position + 1], state)
                    assert_finite({"out": out}, f"{name}, inputs x {scale}, position {position}")


def check_lengths(case: Case, mode: str, lengths: tuple[int, ...], scales: tuple[float, ...]) -> None:
    """In float32, a full row, a half and one real position; and without a mask."""
    attention = case.make(longest=max(lengths)).float()
    for length, scale in product(lengths, scales):
        x, memory = (
            (scale * torch.randn(3, n, 8)).requires_grad_() for n in (5 if mode == "cross" else length, length)
        )
        for mask in (None, masks([length, (length + 1) // 2, 1], length)):
            out, penalty = apply(attention, mode, x, memory, mask)
            values = {"out": out, "penalty": penalty}
            values |= gradients(out.mean() + penalty, attention, x=x, memory=memory if mode == "cross" else None)
            assert_finite(values, f"length {length}, inputs x {scale}, {'no' if mask is None else 'a'} mask")


@every_attention("finite", normalized=False)
def test_every_length_is_finite(case: Case, mode: str) -> None:
    check_lengths(case, mode, (1, 2, 33, 300), (1.0,))


@pytest.mark.slow
@every_attention("finite", normalized=False)
def test_every_length_is_finite_up_to_4096_and_at_every_scale(case: Case, mode: str) -> None:
    check_lengths(case, mode, (1, 2, 64, 65, 1000, 4096), WIDE)


def beyond(attention: Attention, mode: str, x: Tensor, memory: Tensor, mask: Tensor) -> bool:
    """Whether the output in float64 is itself beyond the number format: without a denominator it grows with length."""
    with torch.no_grad():
        exact, _ = apply(copy.deepcopy(attention).double(), mode, x.double(), memory.double(), mask)
    assert_finite({"exact output": exact}, "float64")
    return exact.abs().max().item() > torch.finfo(x.dtype).max


@pytest.mark.slow
@pytest.mark.parametrize("number_format", ["bfloat16", "float16"])
@every_attention("finite")
def test_long_sequences_are_finite_in_half_precision(case: Case, mode: str, number_format: str) -> None:
    dtype, _, scales = FORMATS[number_format]
    attention = case.make(longest=4096).to(dtype)
    mask = masks([4096, 3000, 1], 4096)
    for scale in (scales[0], scales[-1]):
        x, memory = ((scale * torch.randn(3, n, 8)).to(dtype).requires_grad_() for n in (4096, 4096))
        if not case.divides and beyond(attention, mode, x, memory, mask):
            continue
        out, penalty = apply(attention, mode, x, memory, mask)
        values = {"out": out, "penalty": penalty}
        values |= gradients(out.float().mean() + penalty, attention, x=x, memory=memory if mode == "cross" else None)
        assert_finite(values, f"inputs x {scale}")
