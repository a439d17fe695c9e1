"""Base class of subsets whose examples are stored token sequences."""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from attnlab.data.examples import Examples
from attnlab.data.ragged_arrays import Ragged


class SequenceExamples(Examples):
    """Examples of one or more token sequences and perhaps a label, in the attributes that `held` names.

    Args:
        pad_id: fills padded positions.
        groups: named parts with metrics of their own, by example numbers.
        length_bins: lower edges of the length ranges of results; None: every length by itself.
    """

    def __init__(
        self, pad_id: int, groups: Mapping[str, np.ndarray] | None = None, length_bins: Sequence[int] | None = None
    ) -> None:
        self.pad_id, self.groups, self.length_bins = pad_id, groups or {}, length_bins

    def __len__(self) -> int:
        return len(self._columns()[0])

    def extents(self) -> np.ndarray:
        return np.stack([column.lengths for column in self._columns() if isinstance(column, Ragged)], axis=1)

    def identities(self) -> list[bytes]:
        columns = self._columns()
        return [digest(*(column[i] for column in columns)) for i in range(len(self))]

    def arrays(self) -> list[np.ndarray]:
        columns = (column.arrays() if isinstance(column, Ragged) else [column] for column in self._columns())
        return [array for arrays in columns for array in arrays]

    def _columns(self) -> list[Ragged | np.ndarray]:
        return [getattr(self, name) for name in self.held]


def digest(*parts: np.ndarray) -> bytes:
    """Hash of arrays, 16 bytes; equal numbers give equal hashes in any integer type."""
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        part = np.ascontiguousarray(part)
        found.update(f"{part.size},".encode())
        # the same numbers may be stored in a wider type in another file
        found.update((part if np.issubdtype(part.dtype, np.floating) else part.astype(np.int64)).tobytes())
    return found.digest()
