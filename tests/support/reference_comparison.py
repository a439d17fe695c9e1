"""Comparison of an attention with its slow reference.

The reference of `attnlab/attention/<name>.py` is the function `attention` of `tests/reference/<name>.py`.
"""

import importlib
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from attnlab.attention.base import Attention
from support.model_cases import apply
from support.tensors import assert_same, gradients, masks

REFERENCES = Path(__file__).parents[1] / "reference"


def slow(attention: Attention, mode: str, x: Tensor, memory: Tensor | None, mask: Tensor | None):
    """Returns output and penalty of the slow reference; a failure names the file to write."""
    name = type(attention).__module__.rpartition(".")[2]
    if not (REFERENCES / f"{name}.py").exists():
        pytest.fail(
            f"{type(attention).__qualname__} has no slow reference: write tests/reference/{name}.py with "
            "attention(module, x, memory, mask, causal) -> (out, penalty), in plain loops"
        )
    return importlib.import_module(f"reference.{name}").attention(attention, x, memory, mask, mode == "causal")


def compare_with_reference(attention: Attention, mode: str, length: int, lengths: Sequence[int] | None = None) -> None:
    """Checks that output, penalty and gradients equal the reference, on random sequences (cross: three queries)."""
    batch = 1 if lengths is None else len(lengths)
    x = torch.randn(batch, 3 if mode == "cross" else length, 8, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(batch, length, 8, dtype=torch.float64, requires_grad=True) if mode == "cross" else None
    mask = None if lengths is None else masks(lengths, length)
    real = torch.ones(x.shape[:2], dtype=torch.bool) if mask is None or mode == "cross" else mask
    weights, results = torch.randn(*x.shape, dtype=torch.float64), []
    for form in (apply, slow):
        out, penalty = form(attention, mode, x, memory, mask)
        actual = gradients((out * weights)[real].sum() + penalty, attention, x=x, memory=memory)
        results.append(actual | {"out": out.masked_fill(~real[:, :, None], 0.0), "penalty": penalty})
    assert_same(*results, tolerance=1e-9, where=described(attention, mode, length))


def described(attention: Attention, mode: str, length: int) -> str:
    """What is compared with the slow reference, for the message of a failure."""
    positions = "" if attention.positions is None else f" with positions {type(attention.positions).__name__}"
    return f"{type(attention).__name__}{positions}, {mode}, {length} positions, beside its slow reference"
