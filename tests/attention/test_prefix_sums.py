"""Sums of all earlier matrices."""

import pytest
import torch
from support.tensors import draw

from attnlab.attention.core.prefix_sums import AT_ONCE, sums_before


@pytest.mark.parametrize("length", [1, 2, AT_ONCE, AT_ONCE + 1, AT_ONCE**2 + 2])
def test_sums_are_of_the_matrices_before(length: int) -> None:
    x = draw(2, length, 3, 2)
    found = sums_before(x)
    assert not found[:, 0].any()
    torch.testing.assert_close(found[:, 1:], x.cumsum(1)[:, :-1])
    x[:, length // 2] = 1e300
    assert torch.equal(sums_before(x)[:, : length // 2 + 1], found[:, : length // 2 + 1])
