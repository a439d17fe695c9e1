"""Tensors for tests: random draws, padding masks, gradients by name, and comparisons."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

SEQUENCES = {"x", "memory", "out", "logits"}
"""names of tensors with the axes sample, position, column"""


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


def assert_same(
    actual: Mapping[str, Tensor], expected: Mapping[str, Tensor], tolerance: float, where: str = ""
) -> None:
    """Tensors of the same names are equal, up to `tolerance` relative to each one's size (at least 1).

    A failure names the tensors that differ, the one that differs most first: by how much, and at which position.

    Args:
        where: what is compared, for the message.
    """
    assert actual.keys() == expected.keys()
    differing: list[tuple[float, str]] = []
    for name, value in actual.items():
        scale = max(1.0, expected[name].detach().abs().max().item()) if expected[name].numel() else 1.0
        try:
            torch.testing.assert_close(value, expected[name], rtol=tolerance, atol=tolerance * scale)
        except AssertionError as error:
            size = _difference(value, expected[name])
            text = f"  {name}: {_most(name, value, expected[name], size) if size.any() else error}"
            differing.append((size.max().item() if size.any() else torch.inf, text))
    if differing:
        head = (
            f"{len(differing)} of {len(actual)} tensors differ (of inputs and parameters the gradients), most the first"
        )
        lines = [text for _, text in sorted(differing, key=lambda pair: -pair[0])]
        raise AssertionError("\n".join([f"{where}: {head}" if where else head, *lines]))


def _difference(actual: Tensor, expected: Tensor) -> Tensor:
    """Sizes of differences, infinite where one is no number; empty for tensors of different shapes."""
    if actual.shape != expected.shape:
        return actual.new_zeros(0)
    difference = (actual.detach().double() - expected.detach().double()).abs()
    return difference.masked_fill(actual == expected, 0.0).nan_to_num(nan=torch.inf, posinf=torch.inf)


def _most(name: str, actual: Tensor, expected: Tensor, difference: Tensor) -> str:
    """Where and by how much two tensors differ most, and at which positions, where they have any."""
    at = torch.unravel_index(difference.argmax(), difference.shape)
    text = f"by {difference[at]:.3g}: {actual[at]:.6g}, expected {expected[at]:.6g}{place(name, difference, at)}"
    if not has_positions(name, difference):
        return text
    # what rounding or a long reach spreads over all positions is much smaller than the largest difference
    off = (difference.amax((0, 2)) > 1e-3 * difference.max()).nonzero().flatten().tolist()
    return f"{text}; positions that differ: {', '.join(map(str, off[:8]))}{', ...' * (len(off) > 8)}"


def has_positions(name: str, x: Tensor) -> bool:
    """Whether the second axis of a tensor of this name has the positions of a sequence."""
    return x.ndim == 3 and name.rpartition(" ")[2] in SEQUENCES


def place(name: str, x: Tensor, at: Sequence[Tensor]) -> str:
    """The place of one number of a tensor, in words: of a sequence with its position."""
    numbers = [int(number) for number in at]
    if has_positions(name, x):
        return " at sample {}, position {}, column {}".format(*numbers)
    return f" at index {numbers}" if numbers else ""
