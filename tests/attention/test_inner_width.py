"""Queries, keys and values of another width than the model's (`backbone.d_attention`)."""

import pytest
import torch
from support.model_cases import apply
from support.reference_comparison import compare_with_reference
from support.small_runs import config_of
from support.tensors import shaken

from attnlab.attention.base import Attention
from attnlab.attention.linear import LinearAttention
from attnlab.attention.performer import Performer
from attnlab.attention.positions.relative import RelativePositions
from attnlab.attention.positions.rotary import RotaryPositions
from attnlab.attention.reformer import Reformer
from attnlab.attention.softmax import SoftmaxAttention
from attnlab.config.job_config import check_config

MADE = {
    "softmax": (SoftmaxAttention, {}),
    "relative": (SoftmaxAttention, {"positions": RelativePositions()}),
    "rotary": (SoftmaxAttention, {"positions": RotaryPositions()}),
    "linear": (LinearAttention, {}),
    "performer": (Performer, {"kernel": "relu"}),
}


def make(name: str, width: int) -> Attention:
    torch.manual_seed(0)
    kind, options = MADE[name]
    return shaken(kind(8, 2, inner_width=width, **options).double())


@pytest.mark.parametrize("width", [4, 12])
@pytest.mark.parametrize("name", MADE)
def test_projections_have_the_inner_width_and_the_output_equals_the_reference(name: str, width: int) -> None:
    attention = make(name, width)
    shapes = [getattr(attention, f"{part}_proj").weight.shape for part in ("q", "k", "v", "out")]
    assert shapes == [(width, 8)] * 3 + [(8, width)] and attention.head_width == width // 2
    for mode in ("bidirectional", "causal"):
        compare_with_reference(attention, mode, 5)
        compare_with_reference(attention, mode, 6, (6, 3, 1))


@pytest.mark.parametrize("name", MADE)
def test_steps_equal_the_causal_form_and_the_size_of_their_state_is_said(name: str) -> None:
    attention, x = make(name, 4), torch.randn(2, 5, 8, dtype=torch.float64)
    expected, _ = apply(attention, "causal", x, None, None)
    state = attention.init_state(2)
    for i in range(5):
        out, state = attention.step(x[:, i : i + 1], state)
        torch.testing.assert_close(out[:, 0], expected[:, i], rtol=1e-10, atol=1e-10)
    tensors = [value for value in vars(state).values() if isinstance(value, torch.Tensor)]
    assert sum(value[0].numel() for value in tensors) == attention.state_size(5)


def test_a_mechanism_with_other_projections_has_none() -> None:
    class Other(SoftmaxAttention):
        pass

    for kind in (Reformer, Other):
        with pytest.raises(ValueError, match=f"{kind.__name__} .*inner width"):
            kind(8, 2, inner_width=4)
    with pytest.raises(ValueError, match=r"n_heads=3 .*inner_width=4"):
        SoftmaxAttention(9, 3, inner_width=4)


def test_the_configuration_names_the_key_and_the_models_that_can(tmp_path) -> None:
    def problems(*words: str) -> list[str]:
        return [str(problem) for problem in check_config(config_of(tmp_path, "task=lra_image", *words))]

    assert problems("backbone.d_attention=32") == []
    (refused,) = problems("backbone.d_attention=32", "model=reformer")
    assert "backbone.d_attention=32" in refused and "Reformer" in refused and "vanilla" in refused
    (uneven,) = problems("backbone.d_attention=32", "backbone.n_heads=5", "backbone.d_model=65")
    assert "backbone.n_heads=5" in uneven and "backbone.d_attention=32" in uneven and "nearest: 4" in uneven
