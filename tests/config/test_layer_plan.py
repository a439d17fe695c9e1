"""Attention of every layer, by shares and pattern."""

from collections import Counter

import pytest

from attnlab.config.layer_plan import layer_plan


@pytest.mark.parametrize(
    ("shares", "pattern", "n_layers", "plan"),
    [
        ([1.0], "sequential", 3, [(0,), (0,), (0,)]),
        ([0.5, 0.5], "sequential", 5, [(0,), (0,), (1,), (1,), (1,)]),
        ([0.5, 0.5], "alternating", 5, [(0,), (1,), (0,), (1,), (1,)]),
        ([0.25, 0.75], "alternating", 4, [(0,), (1,), (1,), (1,)]),
        ([0.5, 0.5], "parallel", 2, [(0, 1), (0, 1)]),
        ([0.5, 0.5], "sequential", 1, [(1,)]),
        ([0.25, None], "sequential", 4, [(0,), (1,), (1,), (1,)]),
        ([None, 0.25], "sequential", 4, [(0,), (0,), (0,), (1,)]),
        ([None, 0.7, 0.2], "sequential", 10, [(0,)] + [(1,)] * 7 + [(2,)] * 2),
        ([0.5, 0.5, 0], "sequential", 3, [(0,), (1,), (1,)]),
        ([0, None], "alternating", 2, [(1,), (1,)]),
        ([1, None], "parallel", 2, [(0,), (0,)]),
        ([0.5, 0.5], "sequential_reversed", 5, [(1,), (1,), (1,), (0,), (0,)]),
        ([0.5, 0.5], "alternating_reversed", 5, [(1,), (0,), (1,), (0,), (1,)]),
    ],
)
def test_groups_get_their_layers_by_share_and_pattern(
    shares: list[float | None], pattern: str, n_layers: int, plan: list[tuple[int, ...]]
) -> None:
    assert layer_plan(shares, pattern, n_layers) == plan


def test_layer_counts_survive_floating_point() -> None:
    for pattern in ("sequential", "alternating"):
        assert Counter(layer_plan([0.1, 0.2, 0.7], pattern, 30)) == {(0,): 3, (1,): 6, (2,): 21}
    assert Counter(layer_plan([1 / 3, 1 / 3, 1 / 3], "sequential", 3)) == {(0,): 1, (1,): 1, (2,): 1}
    for pattern in ("random", "parallel_reversed"):
        with pytest.raises(ValueError, match=f"pattern={pattern}"):
            layer_plan([1.0], pattern, 1)
