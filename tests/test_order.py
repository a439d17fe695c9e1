"""The order of training examples: a function of seed and step."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.data.order import BatchOrder

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
