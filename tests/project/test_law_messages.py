"""Messages of failed laws: which tensor differs most, at which position of the sequence, by how much."""

import pytest
import torch
from support.finite_checks import assert_finite
from support.reference_comparison import compare_with_reference
from support.tensors import assert_same, draw, shaken
from torch import Tensor

from attnlab.attention.linear import LinearAttention
from attnlab.attention.positions.rotary import RotaryPositions


class WrongAtOnePosition(LinearAttention):
    """The reference is that of linear attention."""

    __module__ = LinearAttention.__module__

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        out = super().attend(q, k, v, mask, causal)
        return torch.cat((out[:, :, :3], 2 * out[:, :, 3:4], out[:, :, 4:]), 2)


def test_a_wrong_output_is_named_with_its_position() -> None:
    attention = shaken(WrongAtOnePosition(8, 2, positions=RotaryPositions()).double())
    with pytest.raises(AssertionError) as raised:
        compare_with_reference(attention, "causal", 6, (6, 4))
    head, *lines = str(raised.value).splitlines()
    for word in ("WrongAtOnePosition", "Rotation", "causal", "6 positions", " of 11 tensors"):
        assert word in head
    (out,) = (line for line in lines if line.startswith("  out: "))
    assert "position 3, column" in out and out.endswith("differ: 3")


def test_the_largest_difference_comes_first_with_its_place() -> None:
    expected = {"x": draw(2, 4, 3), "q_proj.weight": draw(3, 3), "temperature": draw(2, 1, 1), "penalty": draw(1)}
    actual = {name: value.clone() for name, value in expected.items()}
    actual["x"][1, 2, 0] += 0.5
    actual["q_proj.weight"][2, 1] += 0.25
    actual["temperature"][1] += torch.nan
    with pytest.raises(AssertionError) as raised:
        assert_same(actual, expected, 1e-10, "beside itself")
    head, *lines = str(raised.value).splitlines()
    assert head.startswith("beside itself: 3 of 4")
    assert [line.split(":")[0].strip() for line in lines] == ["temperature", "x", "q_proj.weight"]
    assert "[1, 0, 0]" in lines[0] and "by 0.25" in lines[2] and "[2, 1]" in lines[2]
    assert "by 0.5" in lines[1] and "sample 1, position 2, column 0" in lines[1] and lines[1].endswith("differ: 2")


@pytest.mark.parametrize("other", [torch.zeros(2, 4, 2), torch.zeros(2, 4, 3, dtype=torch.float64)])
def test_other_shapes_and_types_differ(other: Tensor) -> None:
    with pytest.raises(AssertionError, match="  x: "):
        assert_same({"x": other}, {"x": torch.zeros(2, 4, 3)}, 1e-10)


def test_the_first_number_that_is_not_finite_is_named() -> None:
    x = draw(2, 4, 3)
    x[1, 2:, 1] = torch.inf
    with pytest.raises(AssertionError, match="x is not finite: float32; first at sample 1, position 2, column 1"):
        assert_finite({"x": x}, "float32")
