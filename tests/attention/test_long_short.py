"""Long-short attention: switches, state, weights, published outputs."""

import pytest
import torch
from support.golden_outputs import assert_golden, golden
from support.model_cases import apply
from support.reference_comparison import compare_with_reference
from support.tensors import draw, masks, shaken
from torch import Tensor

from attnlab.attention.long_short import LongShortAttention

SMALL = {"window_size": 4, "rank": 2, "segment_size": 3}
SWITCHES = (
    SMALL,
    SMALL | {"normalized_projection": True},
    SMALL | {"bias": False, "orthogonality": True},
    {"window_size": 1, "rank": 1, "segment_size": 1},
    {"window_size": 5, "rank": 3, "segment_size": 2},
    {"window_size": 2, "rank": 2, "segment_size": 7},
)
every_switch = pytest.mark.parametrize("options", SWITCHES)


def make(**options) -> LongShortAttention:
    torch.manual_seed(0)
    return shaken(LongShortAttention(8, 2, **options).double().eval())


@pytest.mark.parametrize("mode", ["bidirectional", "causal"])
@every_switch
def test_switches_equal_the_reference(options: dict, mode: str) -> None:
    compare_with_reference(make(**options), mode, 6)
    compare_with_reference(make(**options), mode, 11, (11, 4, 1, 0))


@every_switch
def test_steps_equal_the_causal_form(options: dict) -> None:
    """The state has its declared size, also at the border of a segment."""
    attention, x = make(**options), draw(2, 16, 8)
    expected, _ = apply(attention, "causal", x, None, None)
    state = attention.init_state(2)
    for position in range(16):
        out, state = attention.step(x[:, position : position + 1], state)
        torch.testing.assert_close(out[:, 0], expected[:, position], rtol=1e-11, atol=1e-11)
        held = sum(value.numel() for value in vars(state).values() if isinstance(value, Tensor))
        assert held == 2 * attention.state_size(position + 1)


@pytest.mark.parametrize("causal", [False, True])
def test_weights_are_those_of_positions_before_the_norm_of_means(causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With both norms taken out they times values are what `attend` gives; with them they still add up to 1."""
    attention, mask = make(**SMALL), masks([11, 4, 1], 11)
    q = attention.queries(draw(3, 11, 8))
    k, v = attention.keys_values(draw(3, 11, 8))
    real = mask[:, None, :].expand(-1, 2, -1)
    for _ in range(2):
        weights = attention.weights(q, k, mask, causal)
        assert not (weights * ~mask[:, None, None, :])[real].any()
        assert not (causal and weights[real].any() and weights.triu(1)[real].any())
        torch.testing.assert_close(weights.sum(-1)[real], torch.ones_like(weights[..., 0])[real], rtol=1e-12, atol=0)
        monkeypatch.setattr(attention, "_normed", lambda norm, heads: heads)
    out = attention.attend(q, k, v, mask, causal)
    torch.testing.assert_close((weights @ v)[real], out[real], rtol=1e-11, atol=1e-12)


def published(name: str, norms: tuple[str, str], projections: dict[str, str], **options):
    """An attention with the weights of a golden file."""
    record = golden(name)
    sizes = {key: int(record[key]) for key in ("rank", "window_size", "segment_size") if key in record}
    attention = LongShortAttention(8, int(record["heads"]), **sizes, **options).double().eval()
    names = projections | dict(zip(("local_norm", "global_norm"), norms, strict=True))
    ours = attention.state_dict()
    for to, source in names.items():
        for part in ("weight", "bias"):
            if f"{to}.{part}" in ours:
                ours[f"{to}.{part}"] = record[f"p_{source}_{part}"]
    attention.load_state_dict(ours)
    return attention, record


def test_bidirectional_form_equals_that_of_nvidia() -> None:
    """NVIDIA/transformer-ls, LRA's AttentionLS, with its mask: it projects keys and values already normalised."""
    projections = {"q_proj": "W_q", "k_proj": "W_k", "v_proj": "W_v", "out_proj": "W_o", "p_proj": "dconv_fc"}
    norms = ("dual_ln_l", "dual_ln_s")
    attention, inputs = published("long_short_padded_keys", norms, projections, normalized_projection=True)
    mask = masks(inputs["key_lengths"].tolist(), inputs["x"].shape[1])
    assert_golden(attention(inputs["x"], None, mask)[0][mask], {"out": inputs["out"][mask]})


def test_causal_form_equals_that_of_nvidia() -> None:
    """NVIDIA/transformer-ls, autoregressive ChunkedLSAttention, without relative positions and without means of its
    memory; the first queries are left out: their window reaches into the (empty) memory there."""
    projections = {f"{to}_proj": f"proj_{name}" for to, name in (("q", "query"), ("k", "key"), ("v", "val"))}
    projections |= {"out_proj": "proj_out", "p_proj": "dconv_1"}
    attention, inputs = published("long_short_causal", ("dual_ln_win", "dual_ln_dproj"), projections)
    first = attention.window_size - 1
    assert_golden(attention(inputs["x"], causal=True)[0][:, first:], {"out": inputs["out"][:, first:]})


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_sums_in_float32(dtype: torch.dtype, causal: bool) -> None:
    attention = make(window_size=8, rank=2, segment_size=32).to(dtype)
    q, k, v = (torch.randn(1, 2, 1000, width).to(dtype) for width in (4, 6, 4))
    expected = attention.double().attend(q.double(), k.double(), v.double(), None, causal)
    with torch.autocast("cpu", dtype):
        actual = attention.to(dtype).attend(q, k, v, None, causal)
    assert actual.dtype == dtype
    torch.testing.assert_close(actual.double(), expected, rtol=8e-3, atol=1e-3)


def test_dropout_acts_in_training_only() -> None:
    x, attention = draw(2, 5, 8), make(dropout=0.5)
    plain, _ = make()(x)
    assert torch.equal(attention(x)[0], plain)
    assert not torch.equal(attention.train()(x)[0], plain)
