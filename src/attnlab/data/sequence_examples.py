"""Subsets whose examples are stored token sequences: one with a label, two with a label, or an input and a target."""

import copy
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from attnlab.data.batch import Batch, LabelledBatch, LabelledPairBatch, SequenceBatch
from attnlab.data.batch_gathering import take_rows
from attnlab.data.examples import Examples
from attnlab.data.files.fetch import DataError
from attnlab.data.ragged_arrays import Ragged, gather_rows


def digest(*parts: np.ndarray) -> bytes:
    """Hash of arrays, 16 bytes; equal numbers give equal hashes in any integer type."""
    blake = hashlib.blake2b(digest_size=16)
    for part in parts:
        part = np.ascontiguousarray(part)
        blake.update(f"{part.size},".encode())
        # the same numbers may be stored in a wider type in another file
        blake.update((part if np.issubdtype(part.dtype, np.floating) else part.astype(np.int64)).tobytes())
    return blake.digest()


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


@dataclass(eq=False, repr=False)
class LabelledSequences(SequenceExamples):
    """Token sequences, each with a class (or a number, for a regression).

    Args:
        inputs: the sequences.
        answers: [n] classes (integers) or numbers (floats).
        pad_id, groups, length_bins: as in `Examples`.
    """

    held = ("inputs", "answers")
    batch_type = LabelledBatch

    inputs: Ragged
    answers: np.ndarray
    pad_id: int
    groups: Mapping[str, np.ndarray] = field(default_factory=dict)
    length_bins: Sequence[int] | None = None

    def __post_init__(self) -> None:
        self.lengths = self.inputs.lengths


@dataclass(eq=False, repr=False)
class LabelledPairs(SequenceExamples):
    """Pairs of token sequences, each with a class; `lengths` are the lengths of the longer side.

    Args:
        inputs, others: the first and the second sequence of each pair.
        answers, pad_id, groups, length_bins: as in `LabelledSequences`.
    """

    held = ("inputs", "others", "answers")
    batch_type = LabelledPairBatch

    inputs: Ragged
    others: Ragged
    answers: np.ndarray
    pad_id: int
    groups: Mapping[str, np.ndarray] = field(default_factory=dict)
    length_bins: Sequence[int] | None = None

    def __post_init__(self) -> None:
        self.lengths = np.maximum(self.inputs.lengths, self.others.lengths)


@dataclass(eq=False, repr=False)
class SequencePairs(SequenceExamples):
    """Framed input and target token sequences, perhaps mapped from a file; `lengths` are without framing.

    Args:
        inputs: start + tokens + end.
        targets: tokens + end; without the end after `without_ends`.
        pad_id, groups, length_bins: as in `Examples`.
    """

    held = ("inputs", "targets")
    batch_type = SequenceBatch

    inputs: Ragged
    targets: Ragged
    pad_id: int
    groups: Mapping[str, np.ndarray] = field(default_factory=dict)
    length_bins: Sequence[int] | None = None

    def __post_init__(self) -> None:
        self.lengths = self.targets.lengths - 1

    @classmethod
    def of(
        cls, inputs: Iterable[Sequence[int] | np.ndarray], targets: Iterable[Sequence[int] | np.ndarray], pad_id: int
    ) -> Self:
        """From lists of framed token ids."""
        return cls(Ragged.of(inputs), Ragged.of(targets), pad_id)

    def without_ends(self) -> Self:
        """The same examples, copied, with targets that have no end token; `lengths` stay.

        Raises:
            DataError: the target of an example has no token but the end.
        """
        short = np.flatnonzero(self.targets.lengths < 2)
        if len(short):
            raise DataError(f"example {short[0]} has an empty output: nothing to train on without end tokens")
        part, places = copy.copy(self), self.targets.offsets
        part.targets = Ragged(np.delete(self.targets.values, places[1:] - 1), places - np.arange(len(places)))
        return part

    def rows(self, numbers: np.ndarray) -> Self:
        """A subset of these examples, copied, in this order; without groups."""
        part = copy.copy(self)
        part.inputs, part.targets = self.inputs.rows(numbers), self.targets.rows(numbers)
        part.lengths, part.groups = np.asarray(self.lengths)[numbers], {}
        return part
