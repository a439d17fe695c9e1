"""Subsets whose examples are an input and a target sequence."""

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np

from attnlab.data.batch import SequenceBatch
from attnlab.data.ragged_arrays import Ragged, gather_rows
from attnlab.data.sequence_examples import SequenceExamples


class SequencePairs(SequenceExamples):
    """Framed input and target token sequences, perhaps mapped from a file; `lengths` are without framing.

    Args:
        inputs: start + tokens + end.
        targets: tokens + end.
        pad_id, groups, length_bins: as in `SequenceExamples`.
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
        super().__init__(pad_id, groups, length_bins)
        self.inputs, self.targets, self.lengths = inputs, targets, targets.lengths - 1

    @classmethod
    def of(cls, inputs: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], pad_id: int) -> Self:
        """From lists of framed token ids."""
        return cls(Ragged.of(inputs), Ragged.of(targets), pad_id)

    def batch(self, numbers: np.ndarray) -> SequenceBatch:
        """The pairs of these numbers [B], int64; inputs and targets are each padded to the longest of them."""
        sides = self.stored("inputs"), self.stored("targets")
        index, (inputs, input_lengths), (targets, target_lengths) = gather_rows(numbers, self.pad_id, *sides)
        return SequenceBatch(
            index=index,
            inputs=inputs,
            input_lengths=input_lengths,
            targets=targets,
            target_lengths=target_lengths,
        )
