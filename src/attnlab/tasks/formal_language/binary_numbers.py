"""Binary numbers of any size as tables of bits."""

from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Int

Bits = Int[np.ndarray, "n N"]
SEPARATOR = 2
"""between two numbers; in outputs the end of a number"""


def numbers_of(bits: Bits) -> list[int]:
    """The numbers of rows of bits, the lowest first."""
    packed = np.packbits(bits.astype(np.uint8), axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in packed]


def bits_of(numbers: Iterable[int], width: int) -> Bits:
    """The lowest `width` bits of numbers, the lowest first."""
    size = -(-width // 8)
    joined = b"".join(number.to_bytes(size, "little") for number in numbers)
    packed = np.frombuffer(joined, dtype=np.uint8).reshape(-1, size)
    return np.unpackbits(packed, axis=1, count=width, bitorder="little").astype(np.int32)


def ended(numbers: Sequence[int], width: int, fewest: int) -> Bits:
    """The bits of numbers, lowest first, then the separator, then zeros: `width` places.

    Args:
        fewest: bits of the number 0.
    """
    lengths = np.array([number.bit_length() or fewest for number in numbers])
    table = bits_of(numbers, width)
    table[np.arange(len(table)), lengths] = SEPARATOR
    return table


def draw_pairs(rng: np.random.Generator, number: int, length: int) -> Bits:
    """Two numbers above 0 with the separator between them, whose place is uniform; up to length 2 one number that is
    not all ones."""
    if length <= 2:
        return bits_of(rng.integers(0, 2**length - 1, number).tolist(), length)
    place = rng.integers(1, length - 1, number)[:, None]
    columns = np.arange(length)
    table = rng.integers(0, 2, (number, length), dtype=np.int32)
    while True:
        zero = ~((table == 1) & (columns < place)).any(1) | ~((table == 1) & (columns > place)).any(1)
        if not zero.any():
            break
        first, second = (np.where(side, table, 0).any(1) for side in (columns < place, columns > place))
        for missing, side in ((~first, columns < place), (~second, columns > place)):
            drawn = rng.integers(0, 2, (int(missing.sum()), length), dtype=np.int32)
            table[missing] = np.where(side[missing], drawn, table[missing])
    table[columns == place] = SEPARATOR
    return table


def pairs_of(table: Bits) -> tuple[list[int], list[int]]:
    """The numbers before and after the separator; without one the second is 0."""
    place = np.where((table == SEPARATOR).any(1), (table == SEPARATOR).argmax(1), table.shape[1])[:, None]
    columns = np.arange(table.shape[1])
    moved = np.minimum(columns + place + 1, table.shape[1] - 1)
    second = np.where(columns + place + 1 < table.shape[1], np.take_along_axis(table, moved, axis=1), 0)
    return numbers_of(np.where(columns < place, table, 0)), numbers_of(second)
