"""Tensors for tests: random draws, padding masks, gradients by name, and comparisons."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn


def draw(*shape: int) -> Tensor:
    """Standard normal numbers in float64."""
    return torch.randn(*shape, dtype=torch.float64)


def masks(lengths: Sequence[int], size: int) -> Tensor:
    """The first lengths[b] of `size` positions of row b."""
    return torch.arange(size) < torch.tensor(lengths)[:, None]


def shaken(module: nn.Module, size: float = 0.2) -> nn.Module:
    """The module with noise on every parameter: what starts at 0 or 1 would hide mistakes."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += size * torch.randn_like(parameter)
    return module


def gradients(loss: Tensor, module: nn.Module, **inputs: Tensor | None) -> dict[str, Tensor]:
    """Gradients by name of the inputs that are given and of all parameters; 0 where the loss does not depend on one."""
    named = {name: tensor for name, tensor in inputs.items() if tensor is not None} | dict(module.named_parameters())
    actual = torch.autograd.grad(loss, list(named.values()), materialize_grads=True, allow_unused=True)
    return dict(zip(named, actual, strict=True))


def assert_same(actual: Mapping[str, Tensor], expected: Mapping[str, Tensor], tolerance: float) -> None:
    """Tensors of the same names are equal, up to `tolerance` relative to each one's size (at least 1)."""
    assert actual.keys() == expected.keys()
    for name, value in actual.items():
        scale = max(1.0, expected[name].detach().abs().max().item()) if expected[name].numel() else 1.0
        torch.testing.assert_close(
            value, expected[name], rtol=tolerance, atol=tolerance * scale, msg=lambda text, name=name: f"{name}: {text}"
        )
