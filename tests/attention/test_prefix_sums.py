"""Sums of all earlier matrices."""

import pytest
import torch
from support.tensors import draw

from attnlab.attention.core.prefix_sums import AT_ONCE, sums_before


@pytest.mark.parametrize("length", [1, 2, AT_ONCE, AT_ONCE + 1, AT_ONCE**2 + 2])
def test_sums_are_of_the_matrices_before(length: int) -> None:
    x = draw(2, length, 3, 2)
    result = sums_before(x)
    assert not result[:, 0].any()
    torch.testing.assert_close(result[:, 1:], x.cumsum(1)[:, :-1])
    x[:, length // 2] = 1e300
    assert torch.equal(sums_before(x)[:, : length // 2 + 1], result[:, : length // 2 + 1])
