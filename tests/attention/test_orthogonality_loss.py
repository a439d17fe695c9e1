"""The orthogonality loss against its definition pair by pair, and its properties."""

import math
from dataclasses import replace
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.orthogonality import orthogonality_loss as pair_by_pair
from reference.orthogonality import side_by_side
from support.model_cases import config_of, network_of
from support.tensors import masks
from torch import Tensor

from attnlab.attention.core.orthogonality_loss import orthogonality_loss
from attnlab.config.schema import OrthoForm, OrthoValues

FORMS = (None, *get_args(OrthoForm))
every_form = pytest.mark.parametrize("form", FORMS)
SHAPES = {"n": st.integers(2, 12), "width": st.integers(1, 6), "seed": st.integers(0, 2**31)}


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def slow(values: Tensor, lengths: list[int], form: str | None = None, width: str = "per_head") -> Tensor:
    rows = [[list(head) for head in sample] for sample in values]
    rows = rows if width == "per_head" else side_by_side(rows)
    return pair_by_pair(rows, [list(range(n)) for n in lengths], form)


@every_form
@pytest.mark.parametrize("lengths", [(6, 6), (6, 2, 3), (5, 1, 0), (1, 1), (2, 0), (0, 0)])
def test_equals_its_definition(lengths: tuple[int, ...], form: OrthoForm | None) -> None:
    """Value and gradients, with more and fewer positions than dimensions; a sequence of fewer than two tokens is
    left out of both."""
    for values in (draw(len(lengths), 3, 6, 4).requires_grad_(), draw(len(lengths), 3, 6, 9).requires_grad_()):
        loss, expected = orthogonality_loss(values, masks(lengths, 6), form), slow(values, list(lengths), form)
        torch.testing.assert_close(loss, expected, rtol=1e-10, atol=0)
        (gradient,) = torch.autograd.grad(loss, values)
        assert (gradient[~masks(lengths, 6)[:, None].expand(-1, 3, -1)] == 0).all()
        if max(lengths) > 1:
            torch.testing.assert_close(gradient, torch.autograd.grad(expected, values)[0], rtol=1e-9, atol=1e-12)


@every_form
def test_full_width_takes_the_heads_of_a_position_together(form: OrthoForm | None) -> None:
    """Value and gradients, with more and fewer positions than dimensions of all heads."""
    for heads, width in ((2, 2), (3, 4)):
        values = draw(2, heads, 6, width).requires_grad_()
        loss = orthogonality_loss(values, masks([6, 3], 6), form, "full_width")
        expected = slow(values, [6, 3], form, "full_width")
        torch.testing.assert_close(loss, expected, rtol=1e-10, atol=0)
        (gradient,) = torch.autograd.grad(loss, values)
        torch.testing.assert_close(gradient, torch.autograd.grad(expected, values)[0], rtol=1e-9, atol=1e-12)


def test_no_mask_means_all_positions() -> None:
    values = draw(2, 3, 6, 4)
    assert torch.equal(orthogonality_loss(values), orthogonality_loss(values, masks([6, 6], 6)))
    torch.testing.assert_close(orthogonality_loss(values), slow(values, [6, 6]), rtol=1e-10, atol=0)


def test_samples_count_alike_whatever_their_length() -> None:
    values = draw(2, 3, 6, 4)
    alone = [orthogonality_loss(values[b : b + 1, :, :length]) for b, length in enumerate((6, 3))]
    torch.testing.assert_close(orthogonality_loss(values, masks([6, 3], 6)), sum(alone) / 2, rtol=1e-12, atol=0)


@every_form
def test_gradients_are_those_of_the_value(form: OrthoForm | None) -> None:
    for width in (3, 5):
        values = draw(2, 2, 4, width).requires_grad_()
        torch.autograd.gradcheck(lambda v: orthogonality_loss(v, masks([4, 2], 4), form), (values,))


@pytest.mark.parametrize("width", [3, 7])
def test_a_compiler_sees_the_same_sums(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It differentiates them by itself, without the gradient that is written out; lengths near eps included."""
    values = draw(2, 2, 5, width)
    values[0, 0, 2] *= 1e-6
    values.requires_grad_()
    (expected,) = torch.autograd.grad(orthogonality_loss(values, masks([5, 3], 5)), values)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    (gradients,) = torch.autograd.grad(orthogonality_loss(values, masks([5, 3], 5)), values)
    torch.testing.assert_close(gradients, expected, rtol=1e-8, atol=1e-12)


def test_a_loss_of_almost_nothing_keeps_its_digits() -> None:
    """In float32, where cosines of 1e-4 would drown in the ones of the diagonal."""
    values = torch.eye(8)[None, None, :4] + 1e-4 * draw(1, 1, 4, 8).float()
    assert math.isclose(orthogonality_loss(values).item(), orthogonality_loss(values.double()).item(), rel_tol=1e-3)


@every_form
def test_padding_counts_for_nothing(form: OrthoForm | None) -> None:
    values = draw(1, 2, 6, 4)
    values[:, :, 4:] = 1e30
    values.requires_grad_()
    loss, alone = orthogonality_loss(values, masks([4], 6), form), orthogonality_loss(values[:, :, :4], form=form)
    torch.testing.assert_close(loss, alone, rtol=1e-12, atol=0)
    (gradient,) = torch.autograd.grad(loss, values)
    assert gradient.isfinite().all() and (gradient[:, :, 4:] == 0).all()


@settings(max_examples=40, deadline=None)
@given(**SHAPES)
def test_lies_between_its_bounds(n: int, width: int, seed: int) -> None:
    """Never below (n - d) / (d (n - 1)), the value of n directions spread evenly, and never above 1."""
    values = draw(2, 2, n, width, seed=seed)
    loss = orthogonality_loss(values / values.norm(dim=-1, keepdim=True)).item()
    assert max(0.0, (n - width) / (width * (n - 1))) - 1e-10 <= loss <= 1 + 1e-10


@pytest.mark.parametrize("repeats", [1, 2, 5])
def test_the_lower_bound_is_reached(repeats: int) -> None:
    """d orthogonal directions, each taken `repeats` times."""
    basis, _ = torch.linalg.qr(draw(4, 4))
    values = basis.repeat(repeats, 1)[None, None]
    n = 4 * repeats
    bound = (n - 4) / (4 * (n - 1))
    assert orthogonality_loss(values).item() == pytest.approx(bound, abs=1e-10)


@settings(max_examples=20, deadline=None)
@given(**SHAPES)
def test_equal_directions_give_one(n: int, width: int, seed: int) -> None:
    direction = draw(1, 1, 1, width, seed=seed) + 2
    lengths = draw(1, 1, n, 1, seed=seed).abs() + 0.5
    assert orthogonality_loss(direction * lengths).item() == pytest.approx(1, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(**SHAPES)
def test_order_lengths_and_axes_do_not_matter(n: int, width: int, seed: int) -> None:
    values = draw(2, 2, n, width, seed=seed)
    values = values / values.norm(dim=-1, keepdim=True)
    loss = orthogonality_loss(values)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(n, generator=generator)
    factors = 10 * torch.rand(2, 2, n, 1, dtype=torch.float64, generator=generator) + 0.1
    signs = torch.where(draw(2, 2, n, 1, seed=seed + 1) > 0, 1.0, -1.0)
    rotation, _ = torch.linalg.qr(draw(width, width, seed=seed + 2))
    for same in (values[:, :, order], values * factors, values * signs, values @ rotation):
        torch.testing.assert_close(orthogonality_loss(same), loss, rtol=1e-9, atol=1e-9)


@every_form
def test_zero_vectors_have_no_direction(form: OrthoForm | None) -> None:
    """Two orthogonal values and a zero one: no pair has a cosine, and no gradient explodes."""
    values = torch.tensor([[[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]]]).requires_grad_()
    loss = orthogonality_loss(values, form=form)
    loss.backward()
    # only the form for rows of length 1 has no such row for the zero vector
    assert loss.item() == (1 if form in ("unnormalized", "unnormalized_unsquared") else 0)
    assert values.grad.isfinite().all()


def weight_on_the_mean(form: OrthoForm, values: Tensor) -> float:
    """The weight on the mean squared cosine that has the gradient of weight 1 on another form."""
    (gradients,), (mean,) = (torch.autograd.grad(orthogonality_loss(values, form=f), values) for f in (form, None))
    torch.testing.assert_close(gradients, (factor := gradients.norm() / mean.norm()) * mean, rtol=1e-8, atol=1e-12)
    return factor.item()


def test_weights_convert_as_documented() -> None:
    """A published 0.01 on the sum is 6.5 on the mean at the 26 tokens of sort-of-CLEVR."""
    values = draw(1, 1, 26, 64).requires_grad_()
    mean = orthogonality_loss(values).item()
    assert 0.01 * weight_on_the_mean("frobenius", values) == pytest.approx(6.5)
    assert orthogonality_loss(values, form="frobenius").item() == pytest.approx(650 * mean)
    assert weight_on_the_mean("frobenius_unsquared", values) == pytest.approx(math.sqrt(650 / mean) / 2)
    pair = torch.tensor([[[[1.0, 0.0], [0.3, 1.0]]]], dtype=torch.float64).requires_grad_()
    cosine = orthogonality_loss(pair, form="absolute_cosine").item()
    assert weight_on_the_mean("absolute_cosine", pair) == pytest.approx(1 / (2 * cosine))


@pytest.mark.parametrize("form", ["frobenius_unsquared", "unnormalized_unsquared"])
@pytest.mark.parametrize("length", [4, 40])
def test_a_norm_of_zero_has_gradient_zero(form: OrthoForm, length: int) -> None:
    """A square root has no derivative there; with more positions than dimensions too, where sums are rounded."""
    values = torch.zeros(1, 1, length, 8)
    values[0, 0, :4, :4] = torch.eye(4)
    values.requires_grad_()
    loss = orthogonality_loss(values, masks([4], length), form)
    (gradient,) = torch.autograd.grad(loss, values)
    assert loss.item() == 0 and (gradient == 0).all()


def test_the_unnormalized_form_asks_for_lengths_of_one() -> None:
    basis, _ = torch.linalg.qr(draw(4, 4))
    collected = [orthogonality_loss(size * basis[None, None], form="unnormalized").item() for size in (0.5, 1.0, 2.0)]
    assert collected == pytest.approx([4 * (size**2 - 1) ** 2 for size in (0.5, 1.0, 2.0)], abs=1e-10)


@every_form
@pytest.mark.parametrize("scale", [0.0, 1e-4, 1.0, 1e4])
def test_every_form_is_finite(form: OrthoForm | None, scale: float) -> None:
    values = (scale * draw(2, 2, 40, 8).float()).requires_grad_()
    for mask in (None, masks([40, 1], 40), masks([0, 0], 40)):
        loss = orthogonality_loss(values, mask, form)
        (gradient,) = torch.autograd.grad(loss, values)
        assert loss.isfinite() and gradient.isfinite().all()


def test_a_model_trains_with_the_form_it_names() -> None:
    """The keys of the configuration reach every attention that has the loss."""
    model = config_of("linear_l2_ortho").model
    for form, values in ((None, "per_head"), ("frobenius_unsquared", "full_width")):
        network = network_of(replace(model, ortho=replace(model.ortho, form=form, values=values)), "scan")
        losses = {(m.ortho_form, m.ortho_values) for m in network.modules() if getattr(m, "orthogonality", False)}
        assert losses == {(form, values)}
        x = torch.randn(2, 5, 8, dtype=torch.float64)
        attention = network.encoder.layers[0].attention
        _, penalty = attention(x)
        _, v = attention.keys_values(x)
        assert penalty.item() == pytest.approx(slow(v, [5, 5], form, values).item(), rel=1e-9)


@every_form
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_sums_in_float32(dtype: torch.dtype, form: OrthoForm | None) -> None:
    values = draw(1, 2, 300, 8).to(dtype)
    with torch.autocast("cpu", torch.bfloat16):
        loss = orthogonality_loss(values, form=form)
    assert loss.dtype == torch.float32
    assert math.isclose(loss.item(), orthogonality_loss(values.double(), form=form).item(), rel_tol=1e-5)


@every_form
@pytest.mark.parametrize("values", ["per_head", "full_width"])
def test_padding_may_hold_anything(form: OrthoForm | None, values: OrthoValues) -> None:
    """Called alone: inside a mechanism padding is zero before it is projected."""
    mask = masks([6, 3], 6)
    for content in (math.nan, math.inf, 1e30):
        finite = draw(2, 3, 6, 4).requires_grad_()
        filled = finite.detach().masked_fill(~mask[:, None, :, None], content).requires_grad_()
        losses = [orthogonality_loss(v, mask, form, values) for v in (finite, filled)]
        assert losses[0].equal(losses[1])
        gradients = [torch.autograd.grad(loss, v)[0] for loss, v in zip(losses, (finite, filled), strict=True)]
        assert gradients[0].equal(gradients[1])
