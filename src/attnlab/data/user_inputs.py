"""Batches of inputs that a user gives in Python, without answers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from attnlab.data.batch import LabelledBatch, LabelledPairBatch, LanguageBatch, SequenceBatch
from attnlab.data.files.fetch import DataError
from attnlab.data.labelled_sequences import LabelledPairs, LabelledSequences
from attnlab.data.ragged_arrays import Ragged
from attnlab.data.sequence_examples import SequenceExamples
from attnlab.data.sequence_pairs import SequencePairs

Ids = Sequence[int] | np.ndarray


def sequence_batch(inputs: Sequence[Ids], pad_id: int, end_id: int) -> SequenceBatch:
    """Framed input sequences; their targets are empty."""
    return _whole(SequencePairs.of(_longer_than_none(inputs), [[end_id]] * len(inputs), pad_id))


def labelled_batch(inputs: Sequence[Ids], pad_id: int) -> LabelledBatch:
    """Sequences to classify."""
    return _whole(LabelledSequences(Ragged.of(_longer_than_none(inputs)), _no_answers(inputs), pad_id))


def pair_batch(inputs: Sequence[Ids], others: Sequence[Ids], pad_id: int) -> LabelledPairBatch:
    """Pairs of sequences to classify."""
    first, second = (Ragged.of(_longer_than_none(side)) for side in (inputs, others))
    return _whole(LabelledPairs(first, second, _no_answers(inputs), pad_id))


def language_batch(inputs: Sequence[Ids], pad_id: int, mask_id: int | None = None) -> LanguageBatch:
    """Sequences that a language model continues; with `mask_id`, sequences whose masked tokens it names."""
    found = labelled_batch(inputs, pad_id)
    masked = torch.zeros_like(found.inputs, dtype=torch.bool) if mask_id is None else found.inputs == mask_id
    return LanguageBatch(
        index=found.index,
        inputs=found.inputs,
        lengths=found.input_lengths,
        targets=found.inputs,
        scored=masked,
        words=torch.zeros_like(found.index),
    )


def pictures(inputs: Sequence[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Pictures [n, *shape], uint8.

    Raises:
        DataError: one has another shape or type.
    """
    found = [np.asarray(picture) for picture in inputs]
    for number, picture in enumerate(found):
        if picture.shape != shape or picture.dtype != np.uint8:
            wanted = " x ".join(map(str, shape))
            raise DataError(f"picture {number} is {picture.dtype} of shape {picture.shape}; expected uint8, {wanted}")
    return np.stack(found)


def _no_answers(inputs: Sequence[Ids]) -> np.ndarray:
    return np.zeros(len(inputs), dtype=np.int64)


def _longer_than_none(inputs: Sequence[Ids]) -> Sequence[Ids]:
    empty = next((number for number, ids in enumerate(inputs) if not len(ids)), None)
    if empty is not None:
        raise DataError(f"input {empty} is empty")
    return inputs


def _whole(examples: SequenceExamples) -> Any:
    return examples.batch(np.arange(len(examples)))
