"""Rows shared by two tables, against sets of bytes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab.data import train_test_overlap
from attnlab.data.ragged_arrays import Ragged
from attnlab.data.train_test_overlap import count_shared, row_keys, shared_with_train


@given(st.integers(0, 40), st.integers(0, 40), st.integers(1, 20), st.integers(0, 10**6))
def test_shared_rows_are_counted(n: int, m: int, width: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    table, other = (draw.integers(0, 2, (rows, width), dtype=np.uint8) for rows in (n, m))
    seen = {row.tobytes() for row in other}
    assert count_shared(table, row_keys(other)) == sum(row.tobytes() in seen for row in table)


def test_keys_tell_rows_apart_wherever_they_differ() -> None:
    table = np.concatenate([np.eye(300, dtype=np.uint8) * value for value in range(1, 7)])
    assert len(np.unique(row_keys(table))) == len(table)


def test_parts_make_no_difference(monkeypatch: object) -> None:
    table = np.random.default_rng(0).integers(0, 6, (1000, 13), dtype=np.uint8)
    expected = row_keys(table)
    monkeypatch.setattr(train_test_overlap, "CHUNK", 7)
    np.testing.assert_array_equal(row_keys(table), expected)


@pytest.mark.parametrize("largest", [200, 3000])
def test_sequences_are_shared_if_all_their_numbers_are(largest: int) -> None:
    train = Ragged.of([[1, 2], [1, 2, 3], [largest], [2, 1], [1, 2]])
    test = Ragged.of([[1, 2], [3, 2, 1], [largest, 1], [largest], [1], [1, 2], [0, 0, 0, 0]])
    assert shared_with_train({"train": train, "val": train, "test": test}) == {"val": 5, "test": 3}
