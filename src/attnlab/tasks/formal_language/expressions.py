"""Expressions of arithmetic modulo 5 with brackets: their grammar and their values, for many expressions at once.

An expression of length 1 is a digit d, of length 2 -d, of length 3 (d), of length 4 (-d); a longer one is (A+B), (A-B)
or in some tasks (A*B), the length of A drawn uniformly among those that leave room for B.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

MODULUS = 5
PLUS, MINUS = MODULUS, MODULUS + 1
Expressions = Int[np.ndarray, "n N"]


@dataclass(frozen=True)
class Signs:
    """Numbers of symbols, which differ between tasks; -1 = there is none. Digits are themselves."""

    opening: int
    closing: int
    times: int = -1
    unknown: int = -1
    equals: int = -1


def draw_expressions(rng: np.random.Generator, number: int, length: int, signs: Signs) -> Expressions:
    """Draws expressions of one length: a stack of pending parts for each, of which one is written at a time."""
    table = np.zeros((number, length), dtype=np.int32)
    starts, sizes = np.zeros((2, number, length // 2 + 2), dtype=np.int32)
    sizes[:, 0] = length
    height = np.ones(number, dtype=np.int32)
    while len(rows := np.flatnonzero(height)):
        height[rows] -= 1
        top = height[rows]
        first, size = starts[rows, top], sizes[rows, top]
        _write_short(rng, table, rows, first, size, signs)
        long = size > 4
        rows, first, size, top = rows[long], first[long], size[long], top[long]
        left = rng.integers(1, np.maximum(size - 3, 2))
        table[rows, first], table[rows, first + size - 1] = signs.opening, signs.closing
        table[rows, first + 1 + left] = rng.integers(PLUS, max(MINUS, signs.times) + 1, len(rows))
        starts[rows, top], sizes[rows, top] = first + 1, left
        starts[rows, top + 1], sizes[rows, top + 1] = first + 2 + left, size - left - 3
        height[rows] += 2
    return table


def _write_short(
    rng: np.random.Generator, table: Expressions, rows: np.ndarray, first: np.ndarray, size: np.ndarray, signs: Signs
) -> None:
    """Writes the parts of at most 4 symbols."""
    bracketed, negative = (size == 3) | (size == 4), (size == 2) | (size == 4)
    table[rows[bracketed], first[bracketed]] = signs.opening
    table[rows[bracketed], (first + size - 1)[bracketed]] = signs.closing
    table[rows[negative], (first + bracketed)[negative]] = MINUS
    short = size <= 4
    digit = first + bracketed + negative
    table[rows[short], digit[short]] = rng.integers(0, MODULUS, np.count_nonzero(short))


def linear_values(table: Expressions, signs: Signs) -> tuple[np.ndarray, np.ndarray]:
    """Each expression as a + b x: a and b [n], not reduced. What follows an equals sign is subtracted.

    The unknown is in no product.
    """
    number, length = table.shape
    rows, level = np.arange(number), np.zeros(number, dtype=np.int64)
    constant, factor, product = np.zeros((3, number, length // 2 + 2), dtype=np.int64)
    sign = np.ones((number, length // 2 + 2), dtype=np.int64)
    for symbol in table.T:
        opening, closing, unknown = symbol == signs.opening, symbol == signs.closing, symbol == signs.unknown
        inner = constant[rows, level], factor[rows, level]
        level = level + opening - closing
        for each in (constant, factor, product):
            each[rows[opening], level[opening]] = 0
        read = closing | unknown | (symbol < MODULUS)
        before, multiplied = constant[rows, level], product[rows, level] == 1
        now = np.where(opening, 1, sign[rows, level])
        value = now * np.where(closing, inner[0], np.where(symbol < MODULUS, symbol, 0)) % MODULUS
        constant[rows, level] = np.where(read, np.where(multiplied, before * value, before + value), before)
        factor[rows, level] += np.where(read, now * np.where(closing, inner[1], unknown), 0)
        # two signs in a row are those of a difference and of a negative number
        sign[rows, level] = np.where(read, 1, np.where((symbol == MINUS) | (symbol == signs.equals), -now, now))
        product[rows, level] = np.where(read, 0, product[rows, level] | (symbol == signs.times))
    return constant[:, 0], factor[:, 0]
