"""Subsets whose examples are one or two token sequences with a label."""

from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor

from attnlab.data.batch import LabelledBatch, LabelledPairBatch
from attnlab.data.batch_gathering import take_rows
from attnlab.data.ragged_arrays import Ragged, gather_rows
from attnlab.data.sequence_examples import SequenceExamples


class LabelledSequences(SequenceExamples):
    """Token sequences, each with a class (or a number, for a regression).

    Args:
        inputs: the sequences.
        answers: [n] classes (integers) or numbers (floats).
        pad_id, groups, length_bins: as in `SequenceExamples`.
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
        super().__init__(pad_id, groups, length_bins)
        self.inputs, self.answers, self.lengths = inputs, answers, inputs.lengths

    def batch(self, numbers: np.ndarray) -> LabelledBatch:
        """The sequences of these numbers [B], padded to the longest of them."""
        index, (inputs, lengths) = gather_rows(numbers, self.pad_id, self.stored("inputs"))
        return LabelledBatch(index=index, inputs=inputs, input_lengths=lengths, answers=self._answers(index))

    def _answers(self, index: Tensor) -> Tensor:
        answers = take_rows(self.stored("answers"), index)
        return answers.float() if answers.is_floating_point() else answers.long()


class LabelledPairs(LabelledSequences):
    """Pairs of token sequences, each with a class; `lengths` are the lengths of the longer side.

    Args:
        others: the second sequence of each pair; the other arguments are the same as in `LabelledSequences`.
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
        """The pairs of these numbers [B]; each side is padded to its longest sequence."""
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
