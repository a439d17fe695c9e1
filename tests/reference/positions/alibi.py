"""Slow reference of ALiBi: a slope for every head, times the distance (Press et al. 2022, section 3)."""

from functools import cache

from reference.positions.none import key, query
from torch import Tensor, nn

__all__ = ["added", "key", "query", "slopes"]


def added(positions: nn.Module, h: int, i: int, j: int, row: Tensor, causal: bool) -> float:
    """-m_h |i - j|"""
    return -slopes(positions.n_heads)[h] * abs(i - j)


@cache
def slopes(n_heads: int) -> list[float]:
    """2^(-8/H), 2^(-16/H), ...; for H that is no power of two with every other slope of the next higher one."""
    power = 1
    while 2 * power <= n_heads:
        power *= 2
    if power == n_heads:
        return [2.0 ** (-8 * h / n_heads) for h in range(1, n_heads + 1)]
    return slopes(power) + slopes(2 * power)[::2][: n_heads - power]
