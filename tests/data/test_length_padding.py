"""Length buckets: batches of few shapes, equal losses, share of padding."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.model_cases import SPECS, network_of

from attnlab.data.batch import ImageQuestionBatch, LanguageBatch
from attnlab.data.batch_order import BatchOrder
from attnlab.data.examples import LabelledPairs, LabelledSequences, SequencePairs
from attnlab.data.length_padding import LengthBuckets, padding_share, round_length
from attnlab.data.ragged_arrays import Ragged
from attnlab.learn.train_stream import train_loader
from attnlab.tasks.kinds.base import kind_of


def pairs(n: int = 200, pad_id: int = 0) -> SequencePairs:
    draw = np.random.default_rng(0)
    inputs = [draw.integers(3, 6, length).tolist() for length in draw.integers(1, 40, n)]
    targets = [draw.integers(3, 6, length).tolist() for length in draw.integers(1, 70, n)]
    return SequencePairs.of(inputs, targets, pad_id)


@given(length=st.integers(1, 100_000), longest=st.integers(1, 100_000))
def test_lengths_grow_by_less_than_a_quarter_and_never_above_the_longest(length: int, longest: int) -> None:
    result = round_length(length, max(length, longest))
    assert length <= result < 1.25 * length + 1e-9 or result == length
    assert result <= max(length, longest)
    assert round_length(result, max(length, longest)) == result


def test_few_lengths_are_left() -> None:
    assert sorted({round_length(length, 1000) for length in range(128, 1001)}) == [
        *(128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1000)
    ]
    assert [round_length(length, 27) for length in (0, 1, 7, 9, 17, 26, 27)] == [0, 1, 7, 10, 20, 27, 27]


def test_a_padded_batch_is_the_same_examples() -> None:
    examples = pairs(pad_id=9)
    batch = examples.batch(np.array([3, 5, 8]))
    longer = batch.padded((50, 80), 9)
    assert longer.widths == (50, 80)
    assert torch.equal(longer.input_lengths, batch.input_lengths)
    assert (longer.inputs[~longer.input_mask] == 9).all() and (longer.targets[~longer.target_mask] == 9).all()
    assert all(torch.equal(value, vars(batch)[name]) for name, value in longer.trimmed().tensors().items())
    assert batch.padded(batch.widths, 9) is batch
    with pytest.raises(ValueError, match="cannot be padded"):
        batch.padded((1, 80), 9)


def test_nothing_is_scored_in_new_places() -> None:
    tokens, lengths = torch.ones(2, 3, dtype=torch.int64), torch.tensor([3, 2])
    batch = LanguageBatch(
        index=lengths, inputs=tokens, lengths=lengths, targets=tokens, scored=tokens > 0, words=lengths
    ).padded((5,), 7)
    assert batch.scored.tolist() == [[True] * 3 + [False] * 2] * 2
    assert batch.inputs[:, 3:].unique().tolist() == [7] == batch.targets[:, 3:].unique().tolist()


def test_pictures_stay_as_they_are() -> None:
    nothing = torch.zeros(2, dtype=torch.int64)
    pixels = torch.zeros(2, 3, 3, 3, dtype=torch.uint8)
    batch = ImageQuestionBatch(
        index=nothing, images=pixels, questions=pixels[..., 0, 0], answers=nothing, groups=nothing
    )
    assert batch.widths == () and batch.padded((), 0) is batch


@pytest.mark.parametrize("model", ["vanilla", "linear_l2_ortho"])
def test_padding_changes_no_loss(model: str) -> None:
    batch, network = pairs().batch(np.arange(12)), network_of(model, "scan").eval()
    objective = kind_of(SPECS["scan"]).loss
    for actual, expected in zip(objective(network, batch.padded((48, 80), 0)), objective(network, batch), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


def test_the_loader_rounds_lengths_where_asked() -> None:
    examples, order = pairs(), BatchOrder([np.arange(200)], 4, 0)
    for rounded in (False, True):
        loader = iter(train_loader(examples, order, 0, workers=0, round_lengths=rounded))
        batches = [next(loader) for _ in range(50)]
        assert [batch.index.tolist() for batch in batches] == [order[k].tolist() for k in range(50)]
        shapes = {batch.widths for batch in batches}
        exact = {tuple(examples.extents()[order[k]].max(0).tolist()) for k in range(50)}
        assert (shapes == exact) is not rounded
        if rounded:
            assert shapes == {LengthBuckets(examples).sizes(widths) for widths in exact}
            assert max(shapes)[0] <= examples.inputs.lengths.max()


def test_the_share_of_padding_is_that_of_the_batches() -> None:
    examples, order = pairs(), BatchOrder([np.arange(200)], 7, 0)
    buckets, limit = LengthBuckets(examples), 300

    def share(batches: list) -> float:
        real = sum(int(torch.stack(batch.extents).sum()) for batch in batches)
        return 1 - real / sum(len(batch) * sum(batch.widths) for batch in batches)

    whole = [examples.batch(order[k]) for k in range(30)]
    assert padding_share(order, examples, 30) == pytest.approx(share(whole))
    assert padding_share(order, examples, 30, rounded=True) == pytest.approx(share([buckets(b) for b in whole]))
    pieces = [piece for batch in whole for piece in batch.pieces(limit)]
    assert len(pieces) > 40
    assert padding_share(order, examples, 30, max_tokens=limit) == pytest.approx(share(pieces))
    by_length = BatchOrder([np.arange(200)], 7, 0, extents=examples.extents(), window=10)
    assert padding_share(by_length, examples, 30) < 0.8 * padding_share(order, examples, 30)


def test_extents_are_those_of_the_batches() -> None:
    inputs, others = Ragged.of([[3] * 5, [4] * 2, [5]]), Ragged.of([[3], [4] * 7, [5] * 2])
    for examples in (
        SequencePairs(inputs, others, 0),
        LabelledSequences(inputs, np.arange(3), 0),
        LabelledPairs(inputs, others, np.arange(3), 0),
    ):
        batch = examples.batch(np.arange(3))
        np.testing.assert_array_equal(examples.extents(), torch.stack(batch.extents, 1).numpy())
        assert batch.widths == tuple(examples.extents().max(0))
