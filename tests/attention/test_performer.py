"""Performer: switches, random features, published outputs."""

import math
from itertools import product

import pytest
import torch
from support.golden_outputs import assert_golden, golden
from support.model_cases import apply
from support.reference_comparison import compare_with_reference
from support.slow_cases import slow_except
from support.tensors import draw, masks, shaken
from torch import Tensor

from attnlab.attention.performer import (
    MAX_EXPONENT,
    Performer,
    default_features,
    draw_projection,
)
from attnlab.attention.softmax import SoftmaxAttention
from attnlab.config.job_config import check_config, compose_config
from attnlab.config.schema import Normalization

KINDS = ("none", "l1", "l2", "rms")
PLACEMENTS = ("after_feature_map", "before_feature_map")
MODES = ("bidirectional", "causal", "cross")
FORMS = ({"kernel": "relu"}, {"key_stabilizer": "none"}, {"key_stabilizer": "sequence"})
DETACHED = ({"detach_stabilizer": True}, {"detach_stabilizer": True, "key_stabilizer": "sequence"})
SCALED_TWICE = ({"scaled_twice": True, "key_stabilizer": "sequence"},)


def make(kind: str = "none", placement: str = "after_feature_map", denominator: bool = True, **options) -> Performer:
    torch.manual_seed(0)
    normalization = Normalization(kind=kind, placement=placement, denominator=denominator)
    return shaken(Performer(8, 2, normalization=normalization, **options).double())


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_published_shift_of_keys_flattens_large_ones() -> None:
    """Entropies of the module's table at s = 1.5: softmax, without the shift, with it, uniform."""
    q, k = 1.5 * torch.randn(2, 8, 4, 26, 64, generator=generator(0), dtype=torch.float64)
    torch.manual_seed(0)
    forms = [Performer(256, 4, key_stabilizer=shift).double() for shift in ("none", "sequence")]
    weights = [attention.weights(q, k, None, False) for attention in (SoftmaxAttention(256, 4).double(), *forms)]
    softmax, none, sequence = (-(w * w.clamp(min=1e-30).log()).sum(-1).mean().item() for w in weights)
    assert softmax < none - 0.2 and none < sequence - 0.8 and math.log(26) - 0.05 < sequence


@pytest.mark.parametrize("denominator", slow_except([True, False], [True]))
@pytest.mark.parametrize(("kind", "placement"), list(product(KINDS, PLACEMENTS)))
def test_every_normalization_equals_the_reference(kind: str, placement: str, denominator: bool) -> None:
    for mode in MODES:
        attention = make(kind, placement, denominator, orthogonality=denominator, chunk_size=4)
        compare_with_reference(attention, mode, 6)
        compare_with_reference(attention, mode, 9, (9, 4, 1, 0))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("options", FORMS + DETACHED + SCALED_TWICE)
def test_every_kernel_and_stabilizer_equals_the_reference(options: dict[str, str], mode: str) -> None:
    """Published keys too, whose shift is over the real positions; their causal form as published, looking ahead."""
    lengths = None if mode == "causal" and options.get("key_stabilizer") == "sequence" else (7, 3, 1)
    for more in ({}, {"kind": "l2"}, {"kind": "rms", "placement": "before_feature_map"}):
        attention = make(chunk_size=4, **options, **more)
        compare_with_reference(attention, mode, 7)
        compare_with_reference(attention, mode, 7, lengths)


@pytest.mark.parametrize(
    "options",
    [
        {"n_features": 1},
        {"n_features": 11, "bias": False},
        {"orthogonal": False},
        {"feature_eps": 0.1, "key_sum_eps": 0.5},
        {"feature_eps": 0.0, "key_sum_eps": 0.0},
    ],
)
def test_sizes_and_eps_equal_the_reference(options: dict[str, float]) -> None:
    for mode in MODES:
        compare_with_reference(make(**options), mode, 5)


def test_features_by_default_are_those_of_performer_pytorch() -> None:
    assert [default_features(width) for width in (64, 32, 16, 2, 1)] == [266, 110, 44, 1, 1]
    assert Performer(64, 2).projection.shape == (110, 32)
    assert Performer(64, 2, n_features=7).projection.shape == (7, 32)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kernel", ["softmax", "relu"])
def test_equals_performer_pytorch(kernel: str, causal: bool) -> None:
    """performer-pytorch 1.1.4, FastAttention with its projection: keys shifted by the maximum over features and
    positions (key_stabilizer=sequence; relu features have no shift); eps in the key sum in the causal form only."""
    record = golden(f"performer_{kernel}_kernel_{'causal' if causal else 'bidirectional'}")
    _, heads, _, width = record["q"].shape
    attention = Performer(
        heads * width,
        heads,
        kernel=kernel,
        n_features=len(record["projection"]),
        key_stabilizer="sequence" if kernel == "softmax" else "none",
        key_sum_eps=1e-6 if causal else 0.0,
    ).double()
    attention.load_state_dict({"projection": record["projection"]}, strict=False)
    assert_golden(attention.attend(record["q"], record["k"], record["v"], None, causal), record)


@pytest.mark.parametrize("kernel", ["softmax", "relu"])
def test_scaled_twice_is_what_skyformers_code_does(kernel: str) -> None:
    """It divides queries and keys by D^(1/4), and its features do so again."""
    q, k, v = draw(2, 2, 7, 4), draw(2, 2, 7, 4), draw(2, 2, 7, 4)
    expected = make(kernel=kernel).attend(q / 4**0.25, k / 4**0.25, v, None, False)
    actual = make(kernel=kernel, scaled_twice=True).attend(q, k, v, None, False)
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)
    assert not torch.allclose(actual, make(kernel=kernel).attend(q, k, v, None, False))


def slopes(attention: Performer, mode: str) -> tuple[Tensor, list[Tensor]]:
    """Output on padded sequences, and the gradients of one number made of it by all projections."""
    torch.manual_seed(1)
    x, memory, mask = draw(3, 6, 8), draw(3, 6, 8), masks([6, 4, 1], 6)
    out, _ = apply(attention, mode, x, memory, None if mode == "causal" else mask)
    return out, list(torch.autograd.grad((out * draw(*out.shape)).sum(), list(attention.parameters())))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("key_stabilizer", ["none", "sequence"])
def test_constant_shifts_change_gradients_and_nothing_else(key_stabilizer: str, mode: str) -> None:
    """Which of the two the gradients are, the references say; where nothing is added after the shift they are equal."""
    (out, gradients), (same, other) = (
        slopes(make(key_stabilizer=key_stabilizer, detach_stabilizer=detach), mode) for detach in (False, True)
    )
    assert torch.equal(out, same)
    assert any((a - b).norm() > 1e-4 * a.norm() for a, b in zip(gradients, other, strict=True))
    without = {"key_stabilizer": key_stabilizer, "feature_eps": 0.0, "key_sum_eps": 0.0}
    (_, gradients), (_, other) = (slopes(make(detach_stabilizer=detach, **without), mode) for detach in (False, True))
    for a, b in zip(gradients, other, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_with_constant_shifts_are_those_of_performer_pytorch(causal: bool) -> None:
    """An extra that is compared where it is installed; heads and positions of one sample, as it shifts keys by."""
    published = pytest.importorskip("performer_pytorch.performer_pytorch")
    attention = make(key_stabilizer="sequence", detach_stabilizer=True, key_sum_eps=1e-6 if causal else 0.0)
    fast = published.FastAttention(4, attention.n_features, causal=causal, no_projection=False).double()
    fast.projection_matrix.copy_(attention.projection)
    if causal:
        fast.causal_linear_fn = published.causal_linear_attention_noncuda
    q, k, v = (draw(2, 2, 9, 4).requires_grad_() for _ in range(3))
    weights, actual, expected = draw(2, 2, 9, 4), attention.attend(q, k, v, None, causal), fast(q, k, v)
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-12)
    inputs = torch.autograd.grad((actual * weights).sum(), (q, k, v))
    wanted = torch.autograd.grad((expected * weights).sum(), (q, k, v))
    for a, b in zip(inputs, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(("n_features", "width"), [(8, 4), (11, 4), (3, 4), (5, 1)])
def test_rows_of_a_block_are_orthogonal(n_features: int, width: int) -> None:
    projection = draw_projection(n_features, width, True, generator(0))
    assert projection.shape == (n_features, width)
    for block in projection.split(width):
        products = block @ block.T
        torch.testing.assert_close(products, products.diagonal().diag(), rtol=0, atol=1e-12)
    if n_features > width > 1:
        assert (projection[:width] @ projection[width:].T).abs().min() > 1e-6


@pytest.mark.parametrize("orthogonal", [True, False])
def test_rows_are_standard_normal(orthogonal: bool) -> None:
    """Lengths as of Gaussian vectors, and every direction equally likely, in each row of a block."""
    drawn = draw_projection(4 * 5000, 4, orthogonal, generator(0)).unflatten(0, (5000, 4))
    error = 5000**-0.5
    torch.testing.assert_close(drawn.mean(0), torch.zeros(4, 4).double(), rtol=0, atol=4 * error)
    covariances = torch.einsum("nri,nrj->rij", drawn, drawn) / 5000
    torch.testing.assert_close(covariances, torch.eye(4).double().expand(4, 4, 4), rtol=0, atol=4 * 2**0.5 * error)
    torch.testing.assert_close(drawn.pow(4).mean((0, 2)), torch.full((4,), 3.0).double(), rtol=0.1, atol=0)


def estimates(attention: Performer, q: Tensor, k: Tensor) -> Tensor:
    """What each block of four features says of exp(q . k / sqrt(D)), the query's shift undone: [pairs, blocks]."""
    shift = (attention.projection @ q[..., None] / 2**0.5).amax((-1, -2))
    terms = (attention.query_map(q) * attention.key_map(k, None))[0, 0] * shift.exp()[0, 0, :, None]
    return terms.unflatten(-1, (-1, 4)).sum(-1) * attention.n_features / 4


@pytest.mark.parametrize("orthogonal", [True, False])
def test_the_kernel_is_unbiased(orthogonal: bool) -> None:
    """Many features without eps: their mean is exp(q . k / sqrt(D)) up to its own standard error."""
    torch.manual_seed(1)
    attention = Performer(4, 1, n_features=80_000, feature_eps=0.0, orthogonal=orthogonal).double()
    q, k = draw(1, 1, 6, 4) / 2, draw(1, 1, 6, 4) / 2
    actual, expected = estimates(attention, q, k), (q * k).sum(-1).div(2).exp()[0, 0]
    error = actual.std(-1) * actual.shape[-1] ** -0.5
    assert (error < 0.02 * expected).all()
    assert ((actual.mean(-1) - expected).abs() < 4 * error).all()


def test_orthogonal_rows_lower_the_variance() -> None:
    """Of short vectors: a variance of exponentials of long ones is itself hard to estimate."""
    q, k = draw(1, 1, 6, 4) / 2, draw(1, 1, 6, 4) / 2
    variances = []
    for orthogonal in (True, False):
        attention = Performer(4, 1, n_features=200_000, feature_eps=0.0, orthogonal=orthogonal).double()
        variances.append(estimates(attention, q, k).var(-1))
    assert (variances[0] / variances[1]).mean() < 0.99


def test_many_features_come_close_to_softmax() -> None:
    attention = Performer(4, 1, n_features=40_000, feature_eps=0.0).double()
    q, k, v = draw(1, 1, 5, 4), draw(1, 1, 9, 4), draw(1, 1, 9, 4)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(attention.attend(q, k, v, None, False), expected, rtol=0, atol=0.05)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("causal", [False, True])
def test_a_key_on_a_large_row_is_finite(causal: bool, kind: str) -> None:
    """The largest exponents there are, |w|^2 / 2, here far beyond what float32 holds: output and gradients."""
    attention = make(kind, n_features=3).float()
    attention.projection.fill_(10.0)
    k = attention.projection.expand(2, 2, 3, 4).mul(2**0.5).repeat(1, 1, 30, 1).clone().requires_grad_()
    assert ((attention.projection @ attention.projection.T) / 2 > 100 + MAX_EXPONENT).all()
    q, v = torch.randn(2, 2, 90, 4, requires_grad=True), 1e4 * torch.randn(2, 2, 90, 4)
    v.requires_grad_()
    out = attention.attend(q, k, v, None, causal)
    out.square().mean().backward()
    for value in (out, q.grad, k.grad, v.grad):
        assert value.isfinite().all()
    if kind == "none" and not causal:
        torch.testing.assert_close(out, v.mean(2, keepdim=True).expand_as(out), rtol=1e-3, atol=1.0)


@pytest.mark.parametrize("key_sum_eps", [1e-6, 0.0])
@pytest.mark.parametrize("options", FORMS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_query_without_a_key_gives_zeros(dtype: torch.dtype, options: dict[str, str], key_sum_eps: float) -> None:
    attention = make(key_sum_eps=key_sum_eps, **options).to(dtype)
    mask = masks([5, 0, 2], 5)
    for scale in (1.0, 1e4):
        q, k, v = ((scale * draw(3, 2, 5, 4)).to(dtype).requires_grad_() for _ in range(3))
        out = attention.attend(q, k, v, mask, False)
        assert out.isfinite().all()
        assert (out[1] == 0).all() and (out[[0, 2]] != 0).any(-1).all()
        out.sum().backward()
        for inputs in (q, k, v):
            assert inputs.grad.isfinite().all() and (inputs.grad[1] == 0).all()


@pytest.mark.parametrize("kind", ["none", "l2"])
@pytest.mark.parametrize("mode", ["bidirectional", "cross"])
def test_published_keys_are_shifted_by_real_positions_only(mode: str, kind: str) -> None:
    attention = make(kind, key_stabilizer="sequence")
    x, source = draw(2, 5, 8), draw(2, 5, 8)
    longer = torch.cat((source, 100 * draw(2, 4, 8)), dim=1)
    read = (x, x) if mode == "cross" else (source, longer)
    out, _ = apply(attention, mode, read[0], source, None)
    padded, _ = apply(attention, mode, read[1], longer, masks([5, 5], 9))
    torch.testing.assert_close(padded[:, :5], out, rtol=1e-12, atol=1e-12)


def test_weights_of_published_keys_are_those_of_the_real_positions() -> None:
    attention, mask = make(key_stabilizer="sequence"), masks([6, 2, 0], 6)
    q, k, v = (3 * draw(3, 2, 6, 4) for _ in range(3))
    weights = attention.weights(q, k, mask, False)
    torch.testing.assert_close(weights @ v, attention.attend(q, k, v, mask, False), rtol=1e-10, atol=1e-12)


def test_only_published_keys_depend_on_the_future() -> None:
    q, k, v = draw(1, 2, 6, 4), draw(1, 2, 6, 4), draw(1, 2, 6, 4)
    other = torch.cat((k[:, :, :4], 10 * draw(1, 2, 2, 4)), dim=2)
    for options in FORMS:
        attention = make(**options)
        out, changed = (attention.attend(q, keys, v, None, True)[:, :, :4] for keys in (k, other))
        assert torch.equal(out, changed) == (options.get("key_stabilizer") != "sequence")


def test_published_keys_cost_the_form_that_cannot_look_ahead() -> None:
    raw = compose_config(["task=scan", "model=performer"])
    assert not check_config(raw)
    raw["model"]["decoder"][0]["attention"]["key_stabilizer"] = "sequence"
    messages = check_config(raw)
    assert len(messages) == 1
    assert "has no causal form with key_stabilizer=sequence" in messages[0]
    attention = make(key_stabilizer="sequence")
    with pytest.raises(NotImplementedError, match="key_stabilizer=sequence"):
        attention.init_state(2)
    x, memory, mask = draw(2, 1, 8), draw(2, 5, 8), masks([5, 2], 5)
    out, _ = attention.step(x, attention.init_state(2, memory, mask))
    torch.testing.assert_close(out, attention(x, memory, mask)[0], rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="kernel=softmax"):
        make(key_stabilizer="sequence", kernel="relu")
    with pytest.raises(ValueError, match="kernel=softmax"):
        make(detach_stabilizer=True, kernel="relu")


@pytest.mark.parametrize("orthogonal", [True, False])
def test_a_redraw_depends_on_its_generator_alone(orthogonal: bool) -> None:
    attention, other = make(orthogonal=orthogonal), make(orthogonal=orthogonal)
    first, address = attention.projection.clone(), attention.projection.data_ptr()
    attention.redraw(generator(3))
    assert not torch.isclose(attention.projection, first).any()
    assert attention.projection.data_ptr() == address and attention.projection.dtype == first.dtype
    torch.rand(5)
    other.redraw(generator(3))
    assert torch.equal(other.projection, attention.projection)
    other.redraw(generator(4))
    assert not torch.isclose(other.projection, attention.projection).any()


def test_the_seed_decides_the_first_draw() -> None:
    item, same = make(), make()
    assert torch.equal(item.projection, same.projection)
    torch.manual_seed(1)
    assert not torch.isclose(Performer(8, 2).double().projection, item.projection).any()


def test_saved_weights_hold_the_projection() -> None:
    """A network made with another seed gives the same outputs with them, exactly."""
    item = make()
    item.redraw(generator(5))
    torch.manual_seed(1)
    other = Performer(8, 2).double()
    other.load_state_dict(item.state_dict())
    assert torch.equal(other.projection, item.projection)
    x = draw(2, 5, 8)
    assert torch.equal(other(x)[0], item(x)[0])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kernel", ["softmax", "relu"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_sums_in_float32(dtype: torch.dtype, kernel: str, causal: bool) -> None:
    """Two thousand terms: the result is as good as its rounding, also under autocast."""
    q, k, v = (draw(1, 2, 2000, 4).to(dtype) for _ in range(3))
    attention = make(kernel=kernel).to(dtype)
    exact = make(kernel=kernel)
    exact.projection.copy_(attention.projection)
    with torch.autocast("cpu", dtype):
        actual = attention.attend(q, k, v, None, causal)
    assert actual.dtype == dtype
    expected = exact.attend(q.double(), k.double(), v.double(), None, causal)
    torch.testing.assert_close(actual.double(), expected, rtol=8e-3, atol=1e-4)
