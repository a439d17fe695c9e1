"""Linformer: sharing and size of the projections, lengths beyond them, cross-attention."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from support.golden_outputs import assert_golden, golden
from support.incremental_decoding import check_steps
from support.model_cases import SPECS, apply, backbone_of, config_of
from support.reference_comparison import compare_with_reference
from support.tensors import draw, masks, shaken
from torch import nn

from attnlab.attention.linformer import Linformer
from attnlab.attention.softmax import SoftmaxAttention
from attnlab.config.job_config import check_config, compose_config
from attnlab.tasks.kinds.base import build_network

TARGET = "attnlab.attention.linformer.Linformer"


def make(**options) -> Linformer:
    torch.manual_seed(0)
    return shaken(Linformer(8, 2, **({"max_length": 12, "projected_length": 3} | options)).double())


@pytest.mark.parametrize("mode", ["bidirectional", "cross"])
@pytest.mark.parametrize(("share_heads", "share_key_value"), list(product([True, False], repeat=2)))
def test_every_sharing_equals_the_reference(share_heads: bool, share_key_value: bool, mode: str) -> None:
    for projected_length in (1, 3, 20):
        options = {"share_heads": share_heads, "share_key_value": share_key_value, "projected_length": projected_length}
        attention = make(**options, bias=share_heads, orthogonality=share_key_value)
        compare_with_reference(attention, mode, 6)
        compare_with_reference(attention, mode, 9, (9, 4, 1, 0))


def test_equals_nystromformers_code() -> None:
    """mlpen/Nystromformer, code/attention_linformer.py: one E = F for each head; keys beyond `key_lengths` are padding.

    Skyformer's comparison on Long Range Arena took it over.
    """
    record = golden("linformer_padded_keys")
    heads, projected_length, length = record["e_proj"].shape
    sizes = {"projected_length": projected_length, "max_length": length}
    attention = Linformer(
        heads * record["q"].shape[3], heads, **sizes, share_heads=False, share_key_value=True
    ).double()
    attention.load_state_dict({"e_proj": record["e_proj"]}, strict=False)
    mask = masks(record["key_lengths"].tolist(), length)
    assert_golden(attention.attend(record["q"], record["k"], record["v"], mask, False), record)


def test_projections_have_the_shapes_and_the_start_of_the_papers_code() -> None:
    """Xavier-uniform with gain 1/sqrt(2): between +-sqrt(3 / (k + longest length))."""
    attention = Linformer(8, 2, projected_length=100, max_length=200)
    assert attention.e_proj.shape == attention.f_proj.shape == (1, 100, 200)
    for projection in (attention.e_proj.detach(), attention.f_proj.detach()):
        assert projection.abs().max() == pytest.approx(0.1, rel=1e-3)
        assert projection.std() == pytest.approx(0.1 / 3**0.5, rel=0.02)
    assert not torch.equal(attention.e_proj, attention.f_proj)
    names = [name for name, _ in make(share_heads=False, share_key_value=True).named_parameters()]
    assert "e_proj" in names
    assert "f_proj" not in names
    assert make(share_heads=False).f_proj.shape == (2, 3, 12)


def test_fixed_projections_are_drawn_once_and_not_trained() -> None:
    """As in Skyformer's code; they are saved, and outputs are those of learned ones with the same numbers."""
    options = {"projected_length": 100, "max_length": 200, "share_heads": False}
    fixed = Linformer(8, 2, **options, projections="fixed")
    assert {"e_proj", "f_proj"} <= fixed.state_dict().keys() and fixed.e_proj.shape == (2, 100, 200)
    assert not {"e_proj", "f_proj"} & {name for name, _ in fixed.named_parameters()}
    for projection in (fixed.e_proj, fixed.f_proj):
        assert projection.std() == pytest.approx(0.02, rel=0.02) and projection.mean().abs() < 1e-3
    assert make(share_key_value=True, projections="fixed").f_proj is None
    learned, x = Linformer(8, 2, **options), draw(2, 9, 8).float()
    learned.load_state_dict(fixed.state_dict())
    assert torch.equal(fixed(x)[0], learned(x)[0])


@pytest.mark.parametrize("mode", ["bidirectional", "cross"])
def test_fixed_projections_equal_the_reference(mode: str) -> None:
    attention = make(projections="fixed", share_heads=False, share_key_value=True)
    compare_with_reference(attention, mode, 9, (9, 4, 1, 0))


def test_projections_that_change_nothing_give_softmax_attention() -> None:
    attention, softmax = make(projected_length=7, max_length=7), SoftmaxAttention(8, 2).double()
    softmax.load_state_dict(attention.state_dict(), strict=False)
    for projection in (attention.e_proj, attention.f_proj):
        projection.data.copy_(torch.eye(7))
    x, memory = draw(2, 5, 8), draw(2, 7, 8)
    for mode in ("bidirectional", "cross"):
        actual, expected = (
            apply(a, mode, memory if mode != "cross" else x, memory, None) for a in (attention, softmax)
        )
        torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


def test_a_sequence_uses_the_first_columns() -> None:
    """So a longer longest length changes nothing for the shorter."""
    short, long = make(max_length=5), make(max_length=12)
    long.load_state_dict(short.state_dict() | {"e_proj": long.e_proj, "f_proj": long.f_proj})
    for name in ("e_proj", "f_proj"):
        getattr(long, name).data[:, :, :5] = getattr(short, name).data
    x = draw(2, 5, 8)
    torch.testing.assert_close(long(x), short(x), rtol=1e-12, atol=1e-12)


def test_a_longer_sequence_is_refused_and_more_padding_is_not() -> None:
    attention, x = make(max_length=5), draw(2, 9, 8)
    message = r"9 positions is longer than Linformer's max_length=5.* such as linear"
    for mask in (None, masks([6, 2], 9)):
        for mode in ("bidirectional", "cross"):
            with pytest.raises(ValueError, match=message):
                apply(attention, mode, x, x, mask)
        with pytest.raises(ValueError, match=message):
            attention.init_state(2, x, mask)
    out, _ = attention(x, None, masks([5, 2], 9))
    expected, _ = attention(x[:, :5], None, masks([5, 2], 5))
    torch.testing.assert_close(out[:, :5], expected, rtol=1e-12, atol=1e-12)


def test_it_has_no_causal_form() -> None:
    with pytest.raises(NotImplementedError, match="Linformer has no causal form"):
        apply(make(), "causal", draw(2, 4, 8), None, None)
    with pytest.raises(NotImplementedError, match="no steps in self-attention"):
        make().init_state(2)


def test_a_memory_is_projected_once() -> None:
    """The state does not grow with the memory."""
    for length in (4, 11):
        state = make().init_state(2, draw(2, length, 8), masks([length, 2], length))
        assert state.k.shape == state.v.shape == (2, 2, 3, 4)
        assert state.mask is None


def test_it_is_cross_attention_beside_another_decoder() -> None:
    """Decoding step by step equals the whole sequence, and the config check has nothing against it."""
    linear = config_of("linear").model
    node = {"_target_": TARGET, "projected_length": 3}
    encoder = [replace(linear.encoder[0], attention=node)]
    model = replace(linear, encoder=encoder, decoder=linear.encoder, cross=node)
    network = build_network(backbone_of("linear", "scan"), model, SPECS["scan"])
    assert network.decoder.layers[0].cross.max_length == 100
    check_steps(shaken(network.double().eval()))
    assert not check_config(compose_config(["task=scan", "model=linear", f"+model.cross._target_={TARGET}"]))


def test_the_config_check_refuses_it_as_decoder() -> None:
    messages = check_config(compose_config(["task=scan", "model=linformer"]))
    assert len(messages) == 1
    assert messages[0].startswith("model.decoder.0.attention=Linformer: has no causal form")


def test_dropout_acts_in_training_only() -> None:
    x, plain = draw(2, 5, 8), make()
    attention = make(dropout=0.5)
    assert torch.equal(attention.eval()(x)[0], plain(x)[0])
    assert not torch.equal(attention.train()(x)[0], plain(x)[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_sums_in_float32(dtype: torch.dtype) -> None:
    """Two thousand terms: projected keys and values are as good as their rounding, also under autocast."""
    attention = nn.Module.float(make(max_length=2000))
    k, v = (torch.randn(1, 2, 2000, 4).to(dtype) for _ in range(2))
    with torch.autocast("cpu", dtype):
        actual = attention.projected(k, v, None)
    expected = attention.double().projected(k.double(), v.double(), None)
    for item, other in zip(actual, expected, strict=True):
        assert item.dtype == dtype
        torch.testing.assert_close(item.double(), other, rtol=8e-3, atol=1e-5)
