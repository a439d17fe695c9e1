"""Pairs of token sequences, in memory."""

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np

from attnlab.data.batch import SequenceBatch
from attnlab.data.examples import Examples
from attnlab.data.labelled_sequences import digest
from attnlab.data.ragged_arrays import Ragged, gather_rows


class SequencePairs(Examples):
    """Input and target token sequences, framed (they may be mapped from a file).

    Args:
        inputs: start + tokens + end.
        targets: tokens + end.
        pad_id: fills padded places.
        groups: named parts that get metrics of their own, by example numbers.
        length_bins: lower edges of the ranges of lengths that results are broken down by; None: every length.
    """

    held = ("inputs", "targets")

    def __init__(
        self,
        inputs: Ragged,
        targets: Ragged,
        pad_id: int,
        groups: Mapping[str, np.ndarray] | None = None,
        length_bins: Sequence[int] | None = None,
    ) -> None:
        self.inputs, self.targets, self.pad_id = inputs, targets, pad_id
        self.groups, self.length_bins = groups or {}, length_bins
        self.lengths = targets.lengths - 1

    @classmethod
    def of(cls, inputs: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], pad_id: int) -> Self:
        """From lists of framed token ids."""
        return cls(Ragged.of(inputs), Ragged.of(targets), pad_id)

    def __len__(self) -> int:
        return len(self.inputs)

    def batch(self, numbers: np.ndarray) -> SequenceBatch:
        """The pairs of these numbers [B], int64, padded to the longest input and the longest target among them."""
        sides = self.stored("inputs"), self.stored("targets")
        index, (inputs, input_lengths), (targets, target_lengths) = gather_rows(numbers, self.pad_id, *sides)
        return SequenceBatch(
            index=index,
            inputs=inputs,
            input_lengths=input_lengths,
            targets=targets,
            target_lengths=target_lengths,
        )

    def extents(self) -> np.ndarray:
        return np.stack([self.inputs.lengths, self.targets.lengths], axis=1)

    def identities(self) -> list[bytes]:
        return [digest(self.inputs[i], self.targets[i]) for i in range(len(self))]

    def arrays(self) -> list[np.ndarray]:
        return [*self.inputs.arrays(), *self.targets.arrays()]
