"""FLASH: switches, chunks and state, positions, published outputs."""

from collections.abc import Callable

import pytest
import torch
from support.golden_outputs import assert_golden, golden
from support.model_cases import apply, network_of
from support.reference_comparison import compare_with_reference
from support.tensors import draw, shaken
from torch import Tensor, nn

from attnlab.attention.base import Attention
from attnlab.attention.core.score_position import RotaryBias, TableBias, rotated_halves
from attnlab.attention.flash import Flash, FlashQuad
from attnlab.nn.transformer_block import FeedForward

QUAD = ({}, {"divisor": "keys"}, {"max_length": 3}, {"max_length": 4, "position_bias": "rotary"})
MIXED = ({}, {"chunk_size": 1}, {"chunk_size": 4}, {"chunk_size": 3, "position_bias": "rotary"})
BOTH = ({"bias": False}, {"expansion": 1}, {"orthogonality": True})
ALL = [(FlashQuad, options) for options in QUAD + BOTH] + [(Flash, options) for options in MIXED + BOTH]
every_switch = pytest.mark.parametrize(("kind", "options"), ALL)


def make(kind: Callable[..., Attention], **options) -> Attention:
    torch.manual_seed(0)
    return shaken(kind(8, 2, **({"query_width": 6} | options)).double().eval())


@pytest.mark.parametrize("mode", ["bidirectional", "causal"])
@every_switch
def test_switches_equal_the_reference(kind: type, options: dict, mode: str) -> None:
    compare_with_reference(make(kind, **options), mode, 6)
    compare_with_reference(make(kind, **options), mode, 9, (9, 4, 1, 0))


@every_switch
def test_steps_equal_the_causal_form(kind: type, options: dict) -> None:
    """The state has its declared size, also at the border of a chunk."""
    attention, x = make(kind, **options), draw(2, 10, 8)
    expected, _ = apply(attention, "causal", x, None, None)
    state = attention.init_state(2)
    for position in range(10):
        out, state = attention.step(x[:, position : position + 1], state)
        torch.testing.assert_close(out[:, 0], expected[:, position], rtol=1e-11, atol=1e-11)
        held = sum(value.numel() for value in vars(state).values() if isinstance(value, Tensor))
        assert held == 2 * attention.state_size(position + 1)


def test_the_state_of_mixed_chunks_is_bounded() -> None:
    attention = make(Flash, chunk_size=4)
    sums, row = 6 * 16, 2 * 6 + 16
    assert [attention.state_size(n) for n in (0, 3, 4, 1003)] == [sums, sums + 3 * row, sums, sums + 3 * row]


def published(kind: type, name: str, pairs: tuple[str, ...], **options) -> tuple[Attention, dict[str, Tensor]]:
    """An attention with the weights of a golden file; `pairs` is what its scales and offsets are called after."""
    record = golden(name)
    attention = kind(6, 1, query_width=8, **options).double().eval()
    ours = {"z_proj": "base_proj", "u_proj": "u_proj", "v_proj": "v_proj", "out_proj": "o"}
    state = {f"{to}.{part}": record[f"p_{source}_{part}"] for to, source in ours.items() for part in ("weight", "bias")}
    for side in "qk":
        for to, part in (("scale", "weight"), ("shift", "bias")):
            state[f"{side}_{to}"] = torch.cat([record[f"p_{pair}{side}_{part}"] for pair in pairs])
    # Of a longer table published code reads the middle.
    reach, middle = attention.position_bias.reach, len(record["p_w"]) // 2
    state["position_bias.table"] = record["p_w"][middle - reach + 1 : middle + reach]
    attention.load_state_dict(state)
    return attention, record


@pytest.mark.parametrize("mode", ["bidirectional", "causal"])
def test_quadratic_form_equals_that_of_qin(mode: str) -> None:
    """OpenNLPLab/lra, FlashAttention, without its own norm: n is the constant `max_length`; no padding."""
    attention, inputs = published(FlashQuad, f"flash_quad_{mode}", ("",), max_length=16)
    assert_golden(attention(inputs["x"], causal=mode == "causal")[0], inputs)


@pytest.mark.parametrize("mode", ["bidirectional", "causal"])
def test_mixed_chunks_equal_those_of_qin(mode: str) -> None:
    """OpenNLPLab/lra, FlashLinearAttention, without its own norm: three full chunks, so that nothing is padded."""
    attention, inputs = published(Flash, f"flash_{mode}", ("quad_", "lin_"), chunk_size=4)
    assert_golden(attention(inputs["x"], causal=mode == "causal")[0], inputs)


@pytest.mark.parametrize("bias", [TableBias(20), RotaryBias(6)])
def test_biases_depend_on_distance_alone(bias: nn.Module) -> None:
    bias = shaken(bias.double())
    whole = bias(9, 9)
    torch.testing.assert_close(whole[1:, 1:], whole[:-1, :-1], rtol=1e-12, atol=1e-12)
    assert (whole[:, :-1] != whole[:, 1:]).all()
    torch.testing.assert_close(bias(2, 9, 5), whole[5:7], rtol=1e-12, atol=1e-12)


def test_far_distances_share_the_last_bias() -> None:
    bias = TableBias(3)
    with torch.no_grad():
        bias.table.copy_(torch.arange(-2.0, 3.0))
    expected = [[0, 1, 2, 2, 2], [-1, 0, 1, 2, 2], [-2, -1, 0, 1, 2], [-2, -2, -1, 0, 1], [-2, -2, -2, -1, 0]]
    assert bias(5, 5).tolist() == expected


def test_products_of_rotated_rows_depend_on_distance_alone() -> None:
    rows = draw(2, 1, 6)
    q, k = (rotated_halves(row.expand(7, -1)) for row in rows)
    products = q @ k.T
    torch.testing.assert_close(products[1:, 1:], products[:-1, :-1], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(rotated_halves(rows[0], 5)[0], q[5], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(q.norm(dim=-1), rows[0].norm(dim=-1).expand(7), rtol=1e-12, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_positions(dtype: torch.dtype) -> None:
    """Positions above 256 are no bfloat16 numbers."""
    row = torch.randn(1, 8).to(dtype)
    torch.testing.assert_close(
        rotated_halves(row, 1001).double(), rotated_halves(row.double(), 1001), rtol=0, atol=0.05
    )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", [FlashQuad, Flash])
def test_half_precision_sums_in_float32(kind: type, dtype: torch.dtype, causal: bool) -> None:
    """A thousand terms: the result is as good as its rounding, also under autocast."""
    attention = make(kind)
    q, k = (torch.randn(1, 1, 1000, 6 if kind is FlashQuad else 12).to(dtype) for _ in range(2))
    v = torch.randn(1, 1, 1000, 16).to(dtype)
    attention = attention.to(dtype)
    expected = attention.double().attend(q.double(), k.double(), v.double(), None, causal)
    with torch.autocast("cpu", dtype):
        actual = attention.to(dtype).attend(q, k, v, None, causal)
    assert actual.dtype == dtype
    torch.testing.assert_close(actual.double(), expected, rtol=8e-3, atol=1e-3)


@pytest.mark.parametrize("kind", [FlashQuad, Flash])
def test_dropout_acts_in_training_only(kind: type) -> None:
    x, attention = draw(2, 5, 8), make(kind, dropout=0.5)
    plain, _ = make(kind)(x)
    assert torch.equal(attention(x)[0], plain)
    assert not torch.equal(attention.train()(x)[0], plain)


@pytest.mark.parametrize("kind", [FlashQuad, Flash])
def test_heads_have_no_effect(kind: type) -> None:
    """One head of the whole width, for any number of heads of the backbone."""
    made = []
    for heads in (1, 4):
        torch.manual_seed(0)
        made.append(kind(8, heads, query_width=6).state_dict())
    assert all(torch.equal(made[0][name], made[1][name]) for name in made[0])


@pytest.mark.parametrize("model", ["flash", "flash_quad"])
def test_a_unit_is_a_whole_layer(model: str) -> None:
    assert not [part for part in network_of(model, "sort_of_clevr").modules() if isinstance(part, FeedForward)]


def test_an_odd_width_cannot_be_rotated() -> None:
    with pytest.raises(ValueError, match="query_width=5"):
        Flash(8, 2, query_width=5)
