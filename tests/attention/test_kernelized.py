"""Kernelized attention: a Gaussian kernel between 0 and 1, also for long vectors."""

import math

import pytest
import torch
from support.model_cases import apply
from support.reference_comparison import compare_with_reference
from support.tensors import draw, masks, shaken

from attnlab.attention.kernelized import KernelizedAttention

MODES = ("bidirectional", "causal", "cross")


def make(**options) -> KernelizedAttention:
    torch.manual_seed(0)
    return shaken(KernelizedAttention(8, 2, **options).double())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("options", [{"bias": False}, {"orthogonality": True}])
def test_switches_equal_the_reference(options: dict[str, bool], mode: str) -> None:
    compare_with_reference(make(**options), mode, 5)
    compare_with_reference(make(**options), mode, 6, (6, 2, 1, 0))


def test_equals_the_published_formula() -> None:
    """pkuzengqi/Skyformer, `SoftmaxAttention_RBF`: both sides times D^(-1/4), half their squares taken off, no sum."""
    q, k, v = draw(2, 2, 5, 4), draw(2, 2, 5, 4), draw(2, 2, 5, 4)
    mask = masks([5, 3], 5)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / 2 - 0.25 * (
        (q**2).sum(-1)[..., :, None] + (k**2).sum(-1)[..., None, :]
    )
    expected = (scores - 1e9 * ~mask[:, None, None, :]).exp() @ v
    torch.testing.assert_close(make().attend(q, k, v, mask, False), expected, rtol=1e-12, atol=1e-12)


def test_the_weight_of_a_key_depends_on_its_distance_alone() -> None:
    """exp(-|q - k|^2 / (2 sqrt(D))): 1 at distance 0 for any lengths; n equal keys give n times the value."""
    attention, q = make(), draw(1, 2, 1, 4)
    direction = torch.nn.functional.normalize(draw(1, 2, 1, 4), dim=-1)
    for distance in (0.0, 0.5, 3.0):
        for shift in (0.0, 5.0):
            k = (q + shift + distance * direction).expand(-1, -1, 3, -1)
            out = attention.attend(q + shift, k, torch.ones(1, 2, 3, 1).double(), None, False)
            expected = torch.full_like(out, 3 * math.exp(-(distance**2) / (2 * math.sqrt(4))))
            torch.testing.assert_close(out, expected, rtol=1e-10, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_no_weight_exceeds_1(dtype: torch.dtype) -> None:
    """In float32 the squares of vectors of length 1,000 to 2,000 leave a rest of up to 0.3 when they cancel."""
    q = (500 * torch.randn(1, 2, 200, 4)).to(dtype)
    weights = make().to(dtype).weights(q, q, None, False)
    assert weights.max() <= 1
    assert weights.diagonal(dim1=-2, dim2=-1).min() > 0.7


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_sums_in_float32(dtype: torch.dtype, causal: bool) -> None:
    q, k, v = (torch.randn(1, 2, 1000, 4).to(dtype) for _ in range(3))
    expected = make().attend(q.double(), k.double(), v.double(), None, causal)
    with torch.autocast("cpu", dtype):
        actual = make().to(dtype).attend(q, k, v, None, causal)
    assert actual.dtype == dtype
    torch.testing.assert_close(actual.double(), expected, rtol=8e-3, atol=1e-4)


def test_dropout_acts_in_training_only() -> None:
    x = draw(2, 5, 8)
    attention, plain = make(dropout=0.5), make()(x)[0]
    assert torch.equal(attention.eval()(x)[0], plain)
    assert not torch.equal(attention.train()(x)[0], plain)


def test_a_query_without_keys_gives_the_output_bias() -> None:
    attention = make()
    out, _ = apply(attention, "bidirectional", draw(2, 4, 8), None, masks([4, 0], 4))
    torch.testing.assert_close(out[1], attention.out_proj.bias.expand(4, -1), rtol=0, atol=1e-15)
