"""Counts the examples that are in both training and test set: equal rows of two tables, or equal sequences."""

from collections.abc import Mapping

import numpy as np

from attnlab.data.ragged_arrays import Ragged

CHUNK = 2**16
"""rows whose keys are computed together"""
# constants of Fibonacci hashing: an odd factor with bits in all positions
_FACTOR, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)


def row_keys(table: np.ndarray) -> np.ndarray:
    """Hash keys [n], uint64, of the rows of a table [n, k] of bytes; different rows collide once in 10^19 pairs.

    Args:
        table: uint8, perhaps mapped from a file; read once, in chunks.
    """
    keys = np.zeros(len(table), dtype=np.uint64)
    for start in range(0, len(table), CHUNK):
        part = np.pad(table[start : start + CHUNK], ((0, 0), (0, -table.shape[1] % 8)))
        key = keys[start : start + CHUNK]
        for word in part.view(np.uint64).T:
            key ^= word
            key *= _FACTOR
            key ^= key >> _SHIFT
    return keys


def count_shared(table: np.ndarray, other_keys: np.ndarray) -> int:
    """Number of rows of a table that are also in the table with these `row_keys`."""
    return int(np.isin(row_keys(table), other_keys).sum())


def shared_with_train(subsets: Mapping[str, Ragged]) -> dict[str, int]:
    """Number of sequences of each other subset that are also in `train`.

    Args:
        subsets: their numbers have the same type; may be mapped from files.
    """
    train = _keys_by_length(subsets["train"])
    others = {name: _keys_by_length(sequences) for name, sequences in subsets.items() if name != "train"}
    return {
        name: sum(int(np.isin(keys, train[length]).sum()) for length, keys in by_length.items() if length in train)
        for name, by_length in others.items()
    }


def _keys_by_length(sequences: Ragged) -> dict[int, np.ndarray]:
    lengths = sequences.lengths
    tables = ((length, sequences.rows(np.flatnonzero(lengths == length))) for length in np.unique(lengths).tolist())
    return {length: row_keys(rows.values.reshape(-1, length).view(np.uint8)) for length, rows in tables}


def overlap_in_words(subsets: Mapping[str, Ragged]) -> str:
    """Sentence about the sequences of each other subset that are also in `train`."""
    return shared_in_words(shared_with_train(subsets), {name: len(part) for name, part in subsets.items()})


def shared_in_words(shared: Mapping[str, int], sizes: Mapping[str, int]) -> str:
    """Sentence about the number of examples of each test that are also in the training set."""
    if not any(shared.values()):
        return "no test example is also in train"
    parts = [f"{count:,} of {sizes[name]:,} in {name} ({count / sizes[name]:.1%})" for name, count in shared.items()]
    return f"also in train: {', '.join(parts)}"
