"""Base class of subsets whose examples are stored token sequences."""

import hashlib
from typing import Any, ClassVar

import numpy as np

from attnlab.data.batch import Batch
from attnlab.data.batch_gathering import take_rows
from attnlab.data.examples import Examples
from attnlab.data.ragged_arrays import Ragged, gather_rows


class SequenceExamples(Examples):
    """Examples of one or more token sequences and perhaps a label, in the attributes that `held` names.

    Subclasses are dataclasses with these attributes, and with `pad_id`, `groups` and `length_bins` as in `Examples`.

    batch_type: class of the batches; its fields have the names of the attributes.
    """

    batch_type: ClassVar[type[Batch]]

    def __len__(self) -> int:
        return len(self._columns()[0])

    def batch(self, numbers: np.ndarray) -> Batch:
        """The examples of these numbers [B], int64; every sequence is padded to the longest of them."""
        sequences = self.batch_type.sequences
        stored = [self.stored(name) for (name,) in sequences.values()]
        index, *gathered = gather_rows(numbers, self.pad_id, *stored)
        columns: dict[str, Any] = {"index": index}
        for (lengths, (name,)), (table, sizes) in zip(sequences.items(), gathered, strict=True):
            columns |= {name: table, lengths: sizes}
        if "answers" in self.held:
            answers = take_rows(self.stored("answers"), index)
            columns["answers"] = answers.float() if answers.is_floating_point() else answers.long()
        return self.batch_type(**columns)

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
    blake = hashlib.blake2b(digest_size=16)
    for part in parts:
        part = np.ascontiguousarray(part)
        blake.update(f"{part.size},".encode())
        # the same numbers may be stored in a wider type in another file
        blake.update((part if np.issubdtype(part.dtype, np.floating) else part.astype(np.int64)).tobytes())
    return blake.digest()
