"""Token sequences, or pairs of them, with a label each."""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor

from attnlab.data.batch import LabelledBatch, LabelledPairBatch
from attnlab.data.batch_gathering import take
from attnlab.data.examples import Examples
from attnlab.data.ragged_arrays import Ragged, gather_rows


class LabelledSequences(Examples):
    """Token sequences, each with a class (or a number, for a regression).

    Args:
        inputs: the sequences.
        answers: [n] classes (integers) or numbers (floats).
        pad_id: fills padded places.
        groups: named parts that get metrics of their own, by example numbers.
        length_bins: lower edges of the ranges of lengths that results are broken down by; None: every length.
    """

    held = ("inputs", "answers")

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
        index, (inputs, lengths) = gather_rows(numbers, self.pad_id, self.stored("inputs"))
        return LabelledBatch(index=index, inputs=inputs, input_lengths=lengths, answers=self._answers(index))

    def _answers(self, index: Tensor) -> Tensor:
        answers = take(self.stored("answers"), index)
        return answers.float() if answers.is_floating_point() else answers.long()

    def extents(self) -> np.ndarray:
        return self.inputs.lengths[:, None]

    def identities(self) -> list[bytes]:
        return [digest(self.inputs[i], self.answers[i]) for i in range(len(self))]

    def arrays(self) -> list[np.ndarray]:
        return [*self.inputs.arrays(), self.answers]


class LabelledPairs(LabelledSequences):
    """Pairs of token sequences, each pair with a class. `lengths` are those of the longer side.

    Args:
        others: the second sequence of each pair; the other arguments are those of `LabelledSequences`.
    """

    held = ("inputs", "others", "answers")

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
        sides = self.stored("inputs"), self.stored("others")
        index, (inputs, input_lengths), (others, other_lengths) = gather_rows(numbers, self.pad_id, *sides)
        return LabelledPairBatch(
            index=index,
            inputs=inputs,
            input_lengths=input_lengths,
            others=others,
            other_lengths=other_lengths,
            answers=self._answers(index),
        )

    def extents(self) -> np.ndarray:
        return np.stack([self.inputs.lengths, self.others.lengths], axis=1)

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
