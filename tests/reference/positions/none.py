"""Slow reference of positions that do nothing in scores."""

from torch import Tensor, nn


def query(positions: nn.Module | None, h: int, i: int, row: Tensor) -> Tensor:
    """The query of head h at position i as it enters the product with the keys."""
    return row


def key(positions: nn.Module | None, h: int, j: int, row: Tensor) -> Tensor:
    """The key of head h at position j as it enters the product with the queries."""
    return row


def added(positions: nn.Module | None, h: int, i: int, j: int, row: Tensor, causal: bool) -> Tensor | float:
    """What is added to the scaled product of query i (`row`) and key j of head h."""
    return 0.0
