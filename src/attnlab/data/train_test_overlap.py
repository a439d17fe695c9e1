"""How much of one table stands in another: the same rows in training and test."""

from collections.abc import Mapping

import numpy as np

TOGETHER = 2**16
"""rows whose keys are computed together"""
# of Fibonacci hashing: odd, with bits all over
_FACTOR, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)


def row_keys(table: np.ndarray) -> np.ndarray:
    """[n] uint64, equal for equal rows of a table [n, k] of bytes; one in 10^19 pairs of other rows are equal too.

    Args:
        table: uint8, perhaps mapped from a file; read once, a part at a time.
    """
    keys = np.zeros(len(table), dtype=np.uint64)
    for start in range(0, len(table), TOGETHER):
        part = np.pad(table[start : start + TOGETHER], ((0, 0), (0, -table.shape[1] % 8)))
        key = keys[start : start + TOGETHER]
        for word in part.view(np.uint64).T:
            key ^= word
            key *= _FACTOR
            key ^= key >> _SHIFT
    return keys


def count_shared(table: np.ndarray, other_keys: np.ndarray) -> int:
    """How many rows of a table are also in the one whose `row_keys` these are."""
    return int(np.isin(row_keys(table), other_keys).sum())


def shared_in_words(shared: Mapping[str, int], sizes: Mapping[str, int]) -> str:
    """How many examples of each test are also in the training set."""
    if not any(shared.values()):
        return "no test example is also in train"
    parts = [f"{count:,} of {sizes[name]:,} in {name} ({count / sizes[name]:.1%})" for name, count in shared.items()]
    return f"also in train: {', '.join(parts)}"
