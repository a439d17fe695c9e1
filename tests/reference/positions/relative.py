"""Slow reference of relative positions: ((q_i + u) . k_j + (q_i + w) . W r_(i-j)) / sqrt(D) (Dai et al. 2019, 3.3)."""

import math
from functools import cache

import torch
from reference.positions.none import key
from torch import Tensor, nn

__all__ = ["added", "key", "query"]


def query(positions: nn.Module, h: int, i: int, row: Tensor) -> Tensor:
    """q_i + u"""
    return row + positions.content_bias[h, 0]


def added(positions: nn.Module, h: int, i: int, j: int, row: Tensor, causal: bool) -> Tensor:
    """(q_i + w) . W r_(i-j) / sqrt(D)"""
    width = len(row)
    rows = positions.position_proj.weight[h * width : (h + 1) * width]
    return (row + positions.position_bias[h, 0]) @ (rows @ sinusoid(i - j, rows.shape[1])) / math.sqrt(width)


@cache
def sinusoid(distance: int, width: int) -> Tensor:
    """Column 2c: sin(distance / 10000^(2c / width)); column 2c + 1: its cosine."""
    angles = [distance / 10000 ** (2 * (column // 2) / width) for column in range(width)]
    values = [math.cos(angle) if column % 2 else math.sin(angle) for column, angle in enumerate(angles)]
    return torch.tensor(values, dtype=torch.float64)
