"""Inputs that a user gives in Python: their check and encoding, and their batches, which have no answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch

from attnlab.data.batch import LabelledBatch, LabelledPairBatch, LanguageBatch, SequenceBatch
from attnlab.data.examples import LabelledPairs, LabelledSequences, SequenceExamples, SequencePairs
from attnlab.data.files.fetch import DataError
from attnlab.data.ragged_arrays import Ragged

Ids = Sequence[int] | np.ndarray
T = TypeVar("T")


class InputError(DataError):
    """An input that a task does not know: its position in the list of inputs, and the rest of the sentence."""

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(f"input {number}{problem}")
        self.number, self.problem = number, problem


@dataclass(frozen=True)
class Form:
    """Form of an input, named in words: a value of one type, or a tuple (or list) of values of several types."""

    name: str
    types: tuple[type, ...]

    def misfit(self, item: Any) -> str:
        """The types of an input of another form; empty if it fits."""
        parts = item if len(self.types) > 1 and isinstance(item, (tuple, list)) else (item,)
        if len(parts) == len(self.types) and all(map(isinstance, parts, self.types)):
            return ""
        if isinstance(item, (tuple, list)) and len(item) <= 3:
            return f"({', '.join(type(part).__name__ for part in item)})"
        return type(item).__name__


TEXT = Form("a text", (str,))
TWO_TEXTS = Form("a pair of texts", (str, str))


def encoded(inputs: Sequence[Any], form: Form, encode: Callable[[Any], T]) -> list[T]:
    """The result of `encode` for each input; an InputError for another form, or where it raises a DataError."""
    rows = []
    for number, item in enumerate(inputs):
        if other := form.misfit(item):
            raise InputError(number, f" is {other}; expected {form.name}")
        try:
            rows.append(encode(item))
        except DataError as error:
            raise InputError(number, f": {error}") from None
    return rows


def sequence_batch(inputs: Sequence[Ids], pad_id: int, end_id: int) -> SequenceBatch:
    """Framed input sequences; their targets are empty."""
    return _whole(SequencePairs.of(_longer_than_none(inputs), [[end_id]] * len(inputs), pad_id))


def labelled_batch(inputs: Sequence[Ids], pad_id: int) -> LabelledBatch:
    """Sequences to classify."""
    return _whole(
        LabelledSequences(Ragged.of(_longer_than_none(inputs)), np.zeros(len(inputs), dtype=np.int64), pad_id)
    )


def pair_batch(inputs: Sequence[Ids], others: Sequence[Ids], pad_id: int) -> LabelledPairBatch:
    """Pairs of sequences to classify."""
    first, second = (Ragged.of(_longer_than_none(side)) for side in (inputs, others))
    return _whole(LabelledPairs(first, second, np.zeros(len(inputs), dtype=np.int64), pad_id))


def language_batch(inputs: Sequence[Ids], pad_id: int, mask_id: int | None = None) -> LanguageBatch:
    """Sequences that a language model continues; with `mask_id`, sequences whose masked tokens it names."""
    batch = labelled_batch(inputs, pad_id)
    masked = torch.zeros_like(batch.inputs, dtype=torch.bool) if mask_id is None else batch.inputs == mask_id
    return LanguageBatch(
        index=batch.index,
        inputs=batch.inputs,
        lengths=batch.input_lengths,
        targets=batch.inputs,
        scored=masked,
        words=torch.zeros_like(batch.index),
    )


def picture(pixels: Any, shape: tuple[int, ...]) -> np.ndarray:
    """A picture, uint8 [*shape]. Raises DataError: it has another shape or type."""
    array = np.asarray(pixels)
    if array.shape != shape or array.dtype != np.uint8:
        wanted = " x ".join(map(str, shape))
        raise DataError(f"the picture is {array.dtype} of shape {array.shape}; expected uint8, {wanted}")
    return array


def _longer_than_none(inputs: Sequence[Ids]) -> Sequence[Ids]:
    empty = next((number for number, ids in enumerate(inputs) if not len(ids)), None)
    if empty is not None:
        raise InputError(empty, " is empty")
    return inputs


def _whole(examples: SequenceExamples) -> Any:
    return examples.batch(np.arange(len(examples)))
