"""Token sequences, or pairs of them, with a label each."""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from attnlab.data.batch import LabelledBatch, LabelledPairBatch
from attnlab.data.examples import Examples
from attnlab.data.ragged import Ragged


class LabelledSequences(Examples):
    """Token sequences, each with a class (or a number, for a regression).

    Args:
        inputs: the sequences.
        answers: [n] classes (integers) or numbers (floats).
        pad_id: fills padded places.
        groups: named parts that get metrics of their own, by example numbers.
        length_bins: lower edges of the ranges of lengths that results are broken down by; None: every length.
    """

    def __init__(
        self,
        inputs: Ragged,
        answers: np.ndarray,
        pad_id: int,
        groups: Mapping[str, np.ndarray] | None = None,
        length_bins: Sequence[int] | None = None,
    ) -> None:
        self.inputs, self.answers, self.pad_id = inputs, answers, pad_id
        self.groups, self.length_bins = groups or {}, length_bins
        self.lengths = inputs.lengths

    def __len__(self) -> int:
        return len(self.answers)

    def batch(self, numbers: np.ndarray) -> LabelledBatch:
        """The sequences of these numbers [B], padded to the longest among them."""
        return LabelledBatch(**self._fields(numbers))

    def _fields(self, numbers: np.ndarray) -> dict[str, torch.Tensor]:
        numbers = np.array(numbers, dtype=np.int64)
        inputs, lengths = self.inputs.rows(numbers, self.pad_id)
        kind = np.float32 if np.issubdtype(self.answers.dtype, np.floating) else np.int64
        return {
            "index": torch.from_numpy(numbers),
            "inputs": inputs,
            "input_lengths": lengths,
            "answers": torch.from_numpy(self.answers[numbers].astype(kind)),
        }

    def identities(self) -> list[bytes]:
        return [digest(self.inputs[i], self.answers[i]) for i in range(len(self))]

    def arrays(self) -> list[np.ndarray]:
        return [*self.inputs.arrays(), self.answers]


class LabelledPairs(LabelledSequences):
    """Pairs of token sequences, each pair with a class. `lengths` are those of the longer side.

    Args:
        others: the second sequence of each pair; the other arguments are those of `LabelledSequences`.
    """

    def __init__(
        self,
        inputs: Ragged,
        others: Ragged,
        answers: np.ndarray,
        pad_id: int,
        length_bins: Sequence[int] | None = None,
    ) -> None:
        super().__init__(inputs, answers, pad_id, length_bins=length_bins)
        self.others = others
        self.lengths = np.maximum(inputs.lengths, others.lengths)

    def batch(self, numbers: np.ndarray) -> LabelledPairBatch:
        """The pairs of these numbers [B]; each side is padded to its longest."""
        others, lengths = self.others.rows(numbers, self.pad_id)
        return LabelledPairBatch(**self._fields(numbers), others=others, other_lengths=lengths)

    def identities(self) -> list[bytes]:
        return [digest(self.inputs[i], self.others[i], self.answers[i]) for i in range(len(self))]

    def arrays(self) -> list[np.ndarray]:
        return [*self.inputs.arrays(), *self.others.arrays(), self.answers]


def digest(*parts: np.ndarray) -> bytes:
    """16 bytes that are equal for equal arrays in equal order."""
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        part = np.ascontiguousarray(part)
        found.update(f"{part.size},".encode())
        # the same numbers may be stored in a wider type in another file
        found.update((part if np.issubdtype(part.dtype, np.floating) else part.astype(np.int64)).tobytes())
    return found.digest()
