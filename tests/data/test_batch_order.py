"""The order of training examples is a function of seed and step."""

from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.data.batch_order import BatchOrder, StepOrder
from attnlab.data.files.fetch import DataError

SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=3)


def groups_of(sizes: list[int]) -> list[np.ndarray]:
    return np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])


@settings(max_examples=50, deadline=None)
@given(sizes=SIZES, batch_size=st.integers(1, 12), seed=st.integers(0, 2**31), jumps=st.lists(st.integers(0, 60)))
def test_any_way_to_a_batch_gives_the_same(sizes: list[int], batch_size: int, seed: int, jumps: list[int]) -> None:
    straight = list(islice(BatchOrder(groups_of(sizes), batch_size, seed).since(0), 61))
    order = BatchOrder(groups_of(sizes), batch_size, seed)
    for batch in jumps:
        np.testing.assert_array_equal(order[batch], straight[batch])
        np.testing.assert_array_equal(next(order.since(batch)), straight[batch])


@settings(max_examples=50, deadline=None)
@given(sizes=SIZES, batch_size=st.integers(1, 12), seed=st.integers(0, 2**31))
def test_an_epoch_repeats_nothing_and_takes_groups_in_turn(sizes: list[int], batch_size: int, seed: int) -> None:
    groups = groups_of(sizes)
    order = BatchOrder(groups, batch_size, seed)
    size = min(batch_size, *sizes)
    assert order.batches_per_epoch == len(sizes) * (min(sizes) // size)
    epoch = [order[batch] for batch in range(order.batches_per_epoch)]
    for batch, numbers in enumerate(epoch):
        assert len(numbers) == size
        assert set(numbers) <= set(groups[batch % len(groups)])
    drawn = np.concatenate(epoch)
    assert len(set(drawn)) == len(drawn)


def test_epochs_and_seeds_differ() -> None:
    everything = [np.arange(1000)]
    order = BatchOrder(everything, 1000, 0)
    assert (order[0] != order[1]).any()
    assert (order[0] != BatchOrder(everything, 1000, 1)[0]).any()
    assert sorted(order[0]) == sorted(order[1]) == list(range(1000))


@pytest.mark.parametrize("groups", [[], [np.arange(3), np.arange(0)]])
def test_nothing_to_order_is_an_error(groups: list[np.ndarray]) -> None:
    with pytest.raises(ValueError, match="without examples"):
        BatchOrder(groups, 2, 0)


def by_length(sizes: list[int], batch_size: int, seed: int, **how: int | None) -> BatchOrder:
    """Groups whose examples have an input of 1 to 7 tokens and an output of 1 to 30."""
    draw = np.random.default_rng(1)
    extents = np.stack([draw.integers(1, 8, sum(sizes)), draw.integers(1, 31, sum(sizes))], axis=1)
    return BatchOrder(groups_of(sizes), batch_size, seed, extents=extents, **how)


HOW = st.fixed_dictionaries(
    {"window": st.none() | st.integers(1, 4), "tokens": st.none() | st.integers(37, 200)}
).filter(lambda how: any(how.values()))


@settings(max_examples=60, deadline=None)
@given(sizes=SIZES, batch_size=st.integers(1, 12), how=HOW, jumps=st.lists(st.integers(0, 60), max_size=5))
def test_batches_by_length_are_a_function_of_seed_and_number(
    sizes: list[int], batch_size: int, how: dict, jumps: list[int]
) -> None:
    straight = list(islice(by_length(sizes, batch_size, 3, **how).since(0), 61))
    order = by_length(sizes, batch_size, 3, **how)
    for batch in jumps:
        np.testing.assert_array_equal(order[batch], straight[batch])


@settings(max_examples=60, deadline=None)
@given(sizes=SIZES, batch_size=st.integers(1, 12), how=HOW)
def test_an_epoch_by_length_repeats_nothing_and_keeps_to_its_limits(
    sizes: list[int], batch_size: int, how: dict
) -> None:
    order, groups = by_length(sizes, batch_size, 3, **how), groups_of(sizes)
    ends = [order.batches_in(epochs) for epochs in range(4)]
    assert ends[0] == 0 and ends[1] == order.batches_per_epoch
    for first, end in pairwise(ends):
        epoch = [order[batch] for batch in range(first, end)]
        drawn = np.concatenate(epoch)
        assert len(set(drawn)) == len(drawn)
        for batch, numbers in enumerate(epoch):
            assert set(numbers) <= set(groups[batch % len(groups)])
            assert 0 < len(numbers) <= batch_size
            if how["tokens"] is None:
                assert len(numbers) == min(batch_size, *sizes)
            else:
                assert len(numbers) * order.extents[numbers].max(0).sum() <= how["tokens"]
        if how["tokens"] is not None and len(sizes) == 1:
            assert len(drawn) == sizes[0]


def test_a_window_sorts_by_length_and_shuffles_its_batches() -> None:
    plain, sorted_ = by_length([4000], 20, 0), by_length([4000], 20, 0, window=10)
    assert set(np.concatenate([sorted_[k] for k in range(10)])) == set(np.concatenate([plain[k] for k in range(10)]))
    outputs = [sorted_.extents[sorted_[k]][:, 1] for k in range(200)]
    spread = np.mean([np.ptp(lengths) for lengths in outputs])
    assert spread < 0.6 * np.mean([np.ptp(plain.extents[plain[k]][:, 1]) for k in range(200)])
    first = [lengths.min() for lengths in outputs[:10]]
    assert first != sorted(first)
    other = by_length([4000], 20, 0, window=10)
    assert any((other[k] != other[200 + k]).any() for k in range(10))


def test_without_a_window_a_budget_keeps_the_order_of_examples() -> None:
    plain, budget = by_length([500], 500, 0), by_length([500], 20, 0, tokens=300)
    result = np.concatenate([budget[k] for k in range(budget.batches_per_epoch)])
    np.testing.assert_array_equal(result, plain[0])


def test_a_budget_below_the_longest_example_names_it() -> None:
    extents = np.array([[3, 4], [9, 30], [2, 2]])
    with pytest.raises(DataError, match=r"batch_tokens=38: training example 1 alone has 39 tokens .* at least 39"):
        BatchOrder([np.arange(3)], 2, 0, extents=extents, tokens=38)
    assert BatchOrder([np.array([0, 2])], 2, 0, extents=extents, tokens=38).batches_per_epoch == 1
    with pytest.raises(DataError, match="need examples with lengths"):
        BatchOrder([np.arange(3)], 2, 0, window=4)


def test_no_batch_is_left_with_a_few_examples() -> None:
    extents = np.full((33, 2), 5)
    order = BatchOrder([np.arange(33)], 40, 0, extents=extents, window=1, tokens=160)
    assert sorted(len(order[k]) for k in range(3)) == [8, 9, 16]


def test_the_order_of_steps_takes_successive_batches_across_epochs() -> None:
    order = BatchOrder([np.arange(10)], 3, 0)
    steps = StepOrder(order, 2)
    for step in (0, 1, 5):
        np.testing.assert_array_equal(steps[step], np.concatenate([order[2 * step], order[2 * step + 1]]))
    np.testing.assert_array_equal(StepOrder(order, 1)[4], order[4])
