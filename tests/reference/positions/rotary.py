"""Slow reference of rotary positions (Su et al. 2021, equation 34), with halves of the columns as pairs."""

import math

import torch
from reference.positions.none import added
from torch import Tensor, nn

__all__ = ["added", "key", "query", "rotated"]


def rotated(row: Tensor, position: int) -> Tensor:
    """Columns c and c + D/2 as a vector of the plane, turned by the angle position * 10000^(-2c / D); D of pairs."""
    pairs = len(row) // 2
    turned = list(row)
    for c in range(pairs):
        angle = position * 10000 ** (-2 * c / (2 * pairs))
        turned[c] = row[c] * math.cos(angle) - row[c + pairs] * math.sin(angle)
        turned[c + pairs] = row[c] * math.sin(angle) + row[c + pairs] * math.cos(angle)
    return torch.stack(turned)


def query(positions: nn.Module, h: int, i: int, row: Tensor) -> Tensor:
    """A query or a key, rotated by its position; all heads have the same angles."""
    return rotated(row, i)


key = query
