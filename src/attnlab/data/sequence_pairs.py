"""Subsets whose examples are an input and a target sequence."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from attnlab.data.batch import SequenceBatch
from attnlab.data.files.fetch import DataError
from attnlab.data.ragged_arrays import Ragged
from attnlab.data.sequence_examples import SequenceExamples


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
