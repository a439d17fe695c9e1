"""Switches of linear attention: normalisation and its placement, denominator, scaling of queries, eps, chunks."""

import pickle
from itertools import product

import pytest
import torch
from support.golden_outputs import assert_golden, golden, with_weights
from support.model_cases import apply
from support.reference_comparison import compare_with_reference
from support.tensors import draw, masks, shaken
from torch import Tensor

from attnlab.attention.core.linear_core import FEATURE_MAPS, FeatureMapAttention
from attnlab.attention.core.qk_norm import HeadNorm
from attnlab.attention.feature_fixation import FeatureFixation
from attnlab.attention.linear import LinearAttention
from attnlab.attention.positions.rotary import RotaryPositions
from attnlab.config.schema import Normalization

KINDS = ("none", "l1", "l2", "rms")
PLACEMENTS = ("after_feature_map", "before_feature_map")
MODES = ("bidirectional", "causal", "cross")


def make(
    kind: str = "none", placement: str = "after_feature_map", denominator: bool = True, **options
) -> LinearAttention:
    torch.manual_seed(0)
    normalization = Normalization(kind=kind, placement=placement, denominator=denominator)
    return shaken(LinearAttention(8, 2, normalization=normalization, **options).double())


@pytest.mark.parametrize("denominator", [True, False])
@pytest.mark.parametrize(("kind", "placement"), list(product(KINDS, PLACEMENTS)))
def test_every_normalization_equals_the_reference(kind: str, placement: str, denominator: bool) -> None:
    for mode in MODES:
        attention = make(kind, placement, denominator, orthogonality=denominator, chunk_size=4)
        compare_with_reference(attention, mode, 6)
        compare_with_reference(attention, mode, 9, (9, 4, 1, 0))


@pytest.mark.parametrize("denominator", [True, False])
@pytest.mark.parametrize(("only", "placement"), list(product(("queries", "keys"), PLACEMENTS)))
def test_norms_of_queries_or_keys_alone_equal_the_reference(only: str, placement: str, denominator: bool) -> None:
    normalization = Normalization(kind="l2", placement=placement, denominator=denominator, only=only)
    attention = shaken(LinearAttention(8, 2, normalization=normalization).double())
    assert {attention.q_norm.kind, attention.k_norm.kind} == {"l2", "none"}
    assert (attention.k_norm.kind == "l2") == (only == "keys")
    for mode in MODES:
        compare_with_reference(attention, mode, 5)


def test_after_the_feature_map_the_norm_of_keys_is_all_that_counts() -> None:
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    both, keys, queries, none = (
        apply(LinearAttention(8, 2, eps=0.0, normalization=options).double(), "causal", x, None, None)[0]
        for options in map(seeded_options, ((), ("keys",), ("queries",), None))
    )
    torch.testing.assert_close(keys, both, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(queries, none, rtol=1e-12, atol=1e-12)
    assert not torch.allclose(both, none)


def seeded_options(only: tuple[str, ...] | None) -> Normalization | None:
    """An L2 norm of both (), or of one; None = no norm. The next network gets the same weights."""
    torch.manual_seed(0)
    return None if only is None else Normalization(kind="l2", only=only[0] if only else None)


@pytest.mark.parametrize("kind", ["l1", "l2", "rms"])
@pytest.mark.parametrize("eps", [None, 0.5])
def test_eps_of_a_norm_equals_the_reference(kind: str, eps: float | None) -> None:
    normalization = Normalization(kind=kind, eps=eps)
    attention = shaken(LinearAttention(8, 2, normalization=normalization).double())
    assert attention.k_norm.eps == (eps or {"l1": 1e-6, "l2": 1e-12, "rms": 1e-6}[kind])
    for mode in MODES:
        compare_with_reference(attention, mode, 5)


@pytest.mark.parametrize(
    ("bias", "scale_queries", "eps"), [(False, True, 1e-5), (True, False, 1e-6), (True, True, 0.5)]
)
def test_bias_scaling_and_eps_equal_the_reference(bias: bool, scale_queries: bool, eps: float) -> None:
    attention = make(bias=bias, scale_queries=scale_queries, eps=eps)
    assert attention.scale == (0.5 if scale_queries else 1.0)
    assert attention.eps == eps
    for mode in MODES:
        compare_with_reference(attention, mode, 5)


@pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 130])
def test_chunks_change_nothing(length: int) -> None:
    x = torch.randn(2, length, 8, dtype=torch.float64)
    whole, _ = apply(make(chunk_size=1000), "causal", x, None, None)
    for chunk_size in (1, 2, 7, 64):
        out, _ = apply(make(chunk_size=chunk_size), "causal", x, None, None)
        torch.testing.assert_close(out, whole, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("denominator", [True, False])
def test_its_state_does_not_grow(denominator: bool) -> None:
    attention = make(denominator=denominator)
    assert attention.state_size(1) == attention.state_size(100) == 2 * 4 * (5 if denominator else 4)


@pytest.mark.parametrize(("kind", "placement"), list(product(KINDS, PLACEMENTS)))
def test_every_normalization_is_finite(kind: str, placement: str) -> None:
    for mode, denominator, scale in product(MODES, (True, False), (1e-4, 1.0, 1e4)):
        attention = make(kind, placement, denominator).float()
        x = (scale * torch.randn(2, 70, 8)).requires_grad_()
        out, _ = apply(attention, mode, x, 1.0 * x, None)
        out.mean().backward()
        assert out.isfinite().all()
        assert x.grad.isfinite().all()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_sums_in_float32(dtype: torch.dtype, causal: bool) -> None:
    """Two thousand terms: the result is as good as its rounding, also under autocast."""
    q, k, v = (torch.randn(1, 2, 2000, 4).to(dtype) for _ in range(3))
    expected = make().attend(q.double(), k.double(), v.double(), None, causal)
    with torch.autocast("cpu", dtype):
        actual = make().to(dtype).attend(q, k, v, None, causal)
    assert actual.dtype == dtype
    torch.testing.assert_close(actual.double(), expected, rtol=8e-3, atol=1e-5)


def test_rescaled_queries_change_nothing_after_the_feature_map() -> None:
    """The denominator cancels any positive factor of a query, so the query norm has no effect there (eps aside)."""
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    attention = make("l2", eps=1e-12)
    expected, _ = attention(x)
    attention.q_norm = HeadNorm("none", 4)
    torch.testing.assert_close(attention(x)[0], expected, rtol=1e-9, atol=1e-9)


def test_norms_have_the_lengths_they_say() -> None:
    x = torch.randn(3, 2, 5, 4, dtype=torch.float64)
    ones = torch.ones(3, 2, 5, dtype=torch.float64)
    torch.testing.assert_close(HeadNorm("l1", 4)(x).abs().sum(-1), ones, rtol=1e-5, atol=0)
    torch.testing.assert_close(HeadNorm("l2", 4)(x).square().sum(-1), ones, rtol=1e-5, atol=0)
    torch.testing.assert_close(HeadNorm("rms", 4).double()(x).square().mean(-1), ones, rtol=1e-4, atol=0)
    assert [name for name, _ in HeadNorm("rms", 4).named_parameters()] == ["gain"]
    assert not list(HeadNorm("l2", 4).parameters())


def test_equals_fast_transformers() -> None:
    """idiap/fast-transformers, LinearAttention: queries not scaled, eps 1e-6; keys beyond `key_lengths` are padding."""
    record = golden("linear_elu_padded_keys")
    _, heads, _, width = record["q"].shape
    attention = LinearAttention(heads * width, heads, scale_queries=False, eps=float(record["eps"])).double()
    mask = masks(record["key_lengths"].tolist(), record["k"].shape[2])
    out = attention.attend(record["q"], record["k"], record["v"], mask, False)
    assert_golden(out, record)


def test_a_second_derivative_of_the_l2_norm_is_refused() -> None:
    """Its explicit gradient is not differentiable: a wrong number must not come out of it."""
    x = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(HeadNorm("l2", 4)(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        gradient.sum().backward()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", ["l1", "l2", "rms"])
def test_norms_in_half_precision_are_the_rounded_ones(kind: str, dtype: torch.dtype) -> None:
    """Squares are outside the range of float16 for values above 256, and 0 for values below 2e-4."""
    for size in (1e-5, 1.0, 300.0, 1e4):
        x = (size * torch.randn(2, 5, 64, generator=torch.Generator().manual_seed(0))).to(dtype)
        norm, wide = HeadNorm(kind, 64).to(dtype), x.float().requires_grad_()
        x.requires_grad_()
        out, expected = norm(x), HeadNorm(kind, 64)(wide)
        assert out.dtype == dtype
        torch.testing.assert_close(out, expected.to(dtype))
        weights = torch.arange(64) / 64 - 0.5  # exact in both formats
        (out.float() @ weights).sum().backward()
        (expected @ weights).sum().backward()
        torch.testing.assert_close(x.grad, wide.grad.to(dtype))


def test_feature_fixation_equals_the_published_code() -> None:
    """OpenNLPLab/Linear_VideoTransformer, commit 185d74a, slowfast/models/transformers/linear_block_v2.py, with two
    gates, as in its runs, and without its shift."""
    record = golden("feature_fixation_bidirectional")
    attention = with_weights(FeatureFixation(record["x"].shape[2], int(record["heads"])), record)
    for name in ("q_gate", "k_gate"):
        gate = {key: record[f"{name}_{key}"] for key in ("weight", "bias")}
        attention.get_submodule(name).load_state_dict(gate)
    assert_golden(attention(record["x"])[0], record)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_normalized_gated_features_equal_the_reference(placement: str) -> None:
    torch.manual_seed(0)
    normalization = Normalization(kind="l2", placement=placement)
    attention = shaken(FeatureFixation(8, 2, shared_gate=True, normalization=normalization, chunk_size=4).double())
    for mode in MODES:
        compare_with_reference(attention, mode, 9, (9, 4, 0))


@pytest.mark.parametrize("name", FEATURE_MAPS)
def test_feature_maps_are_pickled_by_name(name: str) -> None:
    """A lambda could not be, and neither could a module that holds it (laws/test_laws_copies.py)."""
    assert pickle.loads(pickle.dumps(FEATURE_MAPS[name])) is FEATURE_MAPS[name]


class TwiceAsWide(FeatureMapAttention):
    def query_map(self, q: Tensor) -> Tensor:
        return torch.cat((q, -q), -1).exp()


def test_a_feature_map_claims_no_rotation_by_itself() -> None:
    with pytest.raises(ValueError, match="TwiceAsWide has no form with RotaryPositions"):
        TwiceAsWide(8, 2, n_features=8, positions=RotaryPositions())
    for kind in (LinearAttention, FeatureFixation):
        assert kind(8, 2, positions=RotaryPositions()).positions is not None


def test_another_number_of_features_is_refused_at_once() -> None:
    """Whole sequences were once computed, and decoding failed."""
    assert TwiceAsWide(8, 2, n_features=8)(draw(2, 5, 8).float())[0].shape == (2, 5, 8)
    for causal in (True, False):
        with pytest.raises(ValueError, match=r"TwiceAsWide: .* 8 features .* n_features=4"):
            TwiceAsWide(8, 2)(draw(2, 5, 8).float(), causal=causal)
