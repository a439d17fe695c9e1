"""Subsets whose examples are one or two token sequences with a label."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from attnlab.data.batch import LabelledBatch, LabelledPairBatch
from attnlab.data.ragged_arrays import Ragged
from attnlab.data.sequence_examples import SequenceExamples


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
