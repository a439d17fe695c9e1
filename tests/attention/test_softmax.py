"""Softmax attention: relative positions, biases, dropout, precision of distances."""

import math

import pytest
import torch
from support.model_cases import apply
from support.reference_comparison import compare_with_reference
from support.tensors import masks, shaken

from attnlab.attention.core.score_position import sinusoid
from attnlab.attention.positions.base import Positions
from attnlab.attention.positions.relative import RelativePositions, RelativeScores
from attnlab.attention.softmax import SoftmaxAttention


def make(**options) -> SoftmaxAttention:
    torch.manual_seed(0)
    return shaken(SoftmaxAttention(8, 2, **options).double())


@pytest.mark.parametrize("options", [{"bias": False}, {"orthogonality": True}, {"positions": RelativePositions()}])
def test_switches_equal_the_reference(options: dict) -> None:
    """Relative positions are for self-attention: distances between two sequences mean nothing."""
    modes = ["bidirectional", "causal"] + ["cross"] * ("positions" not in options)
    for mode in modes:
        compare_with_reference(make(**options), mode, 5)
        compare_with_reference(make(**options), mode, 6, (6, 2, 1, 0))


def test_relative_biases_start_at_0() -> None:
    positions = RelativeScores(8, 2)
    assert not positions.content_bias.any()
    assert not positions.position_bias.any()


def test_relative_scores_depend_on_distance_alone() -> None:
    positions, q = shaken(RelativeScores(8, 2)).double(), torch.randn(1, 2, 1, 4, dtype=torch.float64)
    scores = positions.added(q.expand(-1, -1, 6, -1), 6)
    for i in range(1, 6):
        torch.testing.assert_close(scores[:, :, i, 1:], scores[:, :, i - 1, :-1], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(positions.added(q, 6, first=4), scores[:, :, 4:5], rtol=1e-12, atol=1e-12)


def test_half_precision_keeps_distances() -> None:
    """Distances above 256 are no bfloat16 numbers, and their sines are noise when angles are rounded to it."""
    positions = RelativeScores(8, 2)
    q = torch.randn(1, 2, 1, 4)
    expected = positions.added(q, 1000)
    actual = positions.to(torch.bfloat16).added(q.bfloat16(), 1000)
    torch.testing.assert_close(actual.float(), expected, rtol=0, atol=0.1)


def test_sinusoid_is_that_of_the_paper() -> None:
    """Sines in even columns and cosines in odd ones, of position / 10000^(2c / width)."""
    table = sinusoid(torch.arange(-3.0, 4.0, dtype=torch.float64), 6)
    for row, position in enumerate(range(-3, 4)):
        angles = [position / 10000 ** (2 * c / 6) for c in range(3)]
        expected = [value for angle in angles for value in (math.sin(angle), math.cos(angle))]
        assert table[row].tolist() == pytest.approx(expected, abs=1e-14)


def test_dropout_acts_in_training_only() -> None:
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    for positions in (None, RelativePositions()):
        attention = make(dropout=0.5, positions=positions)
        plain, _ = make(positions=positions)(x)
        assert torch.equal(attention.eval()(x)[0], plain)
        assert not torch.equal(attention.train()(x)[0], plain)


@pytest.mark.parametrize("positions", [None, RelativePositions()])
def test_a_query_without_keys_gives_the_output_bias(positions: Positions | None) -> None:
    attention = make(positions=positions)
    out, _ = apply(attention, "bidirectional", torch.randn(2, 4, 8, dtype=torch.float64), None, masks([4, 0], 4))
    torch.testing.assert_close(out[1], attention.out_proj.bias.expand(4, -1), rtol=0, atol=1e-15)
