"""Batches of sequence pairs."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.data.examples import SequencePairs

SEQUENCES = st.lists(st.lists(st.integers(3, 30_000), min_size=1, max_size=9), min_size=1, max_size=20)


@settings(max_examples=50, deadline=None)
@given(SEQUENCES, st.data())
def test_a_batch_is_trimmed_to_its_longest(sequences: list[list[int]], data: st.DataObject) -> None:
    pairs = SequencePairs.of(sequences, sequences[::-1], 0)
    numbers = data.draw(st.lists(st.integers(0, len(sequences) - 1), min_size=1, max_size=6))
    batch = pairs.batch(np.array(numbers))
    assert batch.index.tolist() == numbers
    assert {tensor.dtype for tensor in batch.tensors().values()} == {torch.int64}
    assert batch.inputs.shape == (len(numbers), max(len(sequences[number]) for number in numbers))
    targets = [row[mask].tolist() for row, mask in zip(batch.targets, batch.target_mask, strict=True)]
    assert targets == [sequences[::-1][number] for number in numbers]
    assert pairs.lengths.tolist() == [len(sequence) - 1 for sequence in sequences[::-1]]
