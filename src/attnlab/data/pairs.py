"""Pairs of token sequences, in memory."""

from collections.abc import Sequence
from typing import Self

import numpy as np
import torch

from attnlab.data.batch import SequenceBatch, pad_sequences
from attnlab.data.examples import Examples


class SequencePairs(Examples):
    """Input and target token sequences, framed, as padded tables of small integers (they may be mapped from a file).

    Args:
        inputs: [n, longest input] start + tokens + end, padded.
        input_lengths: [n] framing included.
        targets: [n, longest target] tokens + end, padded.
        target_lengths: [n] end included.
    """

    def __init__(
        self, inputs: np.ndarray, input_lengths: np.ndarray, targets: np.ndarray, target_lengths: np.ndarray
    ) -> None:
        self.inputs, self.input_lengths = inputs, input_lengths
        self.targets, self.target_lengths = targets, target_lengths
        self.lengths = target_lengths - 1

    @classmethod
    def padded(cls, inputs: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], pad_id: int) -> Self:
        """From lists of framed token ids, filled up with `pad_id`."""
        tables = (*pad_sequences(inputs, pad_id), *pad_sequences(targets, pad_id))
        return cls(*(table.numpy() for table in tables))

    def __len__(self) -> int:
        return len(self.inputs)

    def batch(self, numbers: np.ndarray) -> SequenceBatch:
        """The pairs of these numbers [B], int64, padded to the longest input and the longest target among them."""
        numbers = np.array(numbers, dtype=np.int64)
        input_lengths = self.input_lengths[numbers].astype(np.int64)
        target_lengths = self.target_lengths[numbers].astype(np.int64)
        return SequenceBatch(
            index=torch.from_numpy(numbers),
            inputs=_gather(self.inputs, numbers, input_lengths),
            input_lengths=torch.from_numpy(input_lengths),
            targets=_gather(self.targets, numbers, target_lengths),
            target_lengths=torch.from_numpy(target_lengths),
        )

    def identities(self) -> list[bytes]:
        rows = zip(self.inputs, self.input_lengths, self.targets, self.target_lengths, strict=True)
        return [b"|".join((source[:n].tobytes(), target[:m].tobytes())) for source, n, target, m in rows]

    def arrays(self) -> list[np.ndarray]:
        return [self.inputs, self.input_lengths, self.targets, self.target_lengths]


def _gather(table: np.ndarray, numbers: np.ndarray, lengths: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(table[numbers, : lengths.max(initial=0)].astype(np.int64))
