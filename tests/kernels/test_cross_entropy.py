"""Cross-entropy in chunks: equal to torch's, without the logits of a whole batch."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from attnlab.kernels import cross_entropy
from attnlab.kernels.cross_entropy import chunked_cross_entropy, sum_in_chunks, token_losses


def drawn(positions: int, vocabulary: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
    """Hidden states, weights, biases, targets."""
    generator = torch.Generator().manual_seed(positions + vocabulary)
    shapes = (positions, 6), (vocabulary, 6), (vocabulary,)
    made = [torch.randn(shape, generator=generator, dtype=dtype).requires_grad_() for shape in shapes]
    return *made, torch.randint(vocabulary, (positions,), generator=generator)


class Largest(TorchDispatchMode):
    """The most numbers in any tensor that an operation gives."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for each in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(each, Tensor):
                self.numbers = max(self.numbers, each.numel())
        return out


@settings(max_examples=30, deadline=None)
@given(positions=st.integers(1, 30), vocabulary=st.integers(1, 20), chunk=st.integers(1, 300))
def test_loss_and_gradients_are_those_of_torch(positions: int, vocabulary: int, chunk: int) -> None:
    hidden, weight, bias, targets = drawn(positions, vocabulary)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cross_entropy, "CHUNK", chunk)
        loss = chunked_cross_entropy(hidden, weight, bias, targets)
        gradients = torch.autograd.grad(3 * loss, (hidden, weight, bias))
        each, right = token_losses(hidden, weight, bias, targets)
    logits = F.linear(hidden, weight, bias)
    expected = F.cross_entropy(logits, targets)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    for item, other in zip(gradients, torch.autograd.grad(3 * expected, (hidden, weight, bias)), strict=True):
        torch.testing.assert_close(item, other, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(each.mean().double(), expected.detach(), rtol=1e-5, atol=1e-6)
    assert right.tolist() == (logits.argmax(-1) == targets).tolist()


def test_gradients_of_some_inputs_alone() -> None:
    hidden, weight, bias, targets = drawn(5, 4)
    loss = chunked_cross_entropy(hidden.detach(), weight, bias.detach(), targets)
    expected = F.cross_entropy(F.linear(hidden, weight, bias), targets)
    (gradients,) = torch.autograd.grad(loss, [weight])
    torch.testing.assert_close(gradients, torch.autograd.grad(expected, [weight])[0], rtol=1e-10, atol=1e-12)
    assert not chunked_cross_entropy(hidden.detach(), weight.detach(), bias.detach(), targets).requires_grad


def test_the_logits_of_a_batch_are_never_all_there(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, weight, bias, targets = drawn(400, 300, torch.float32)
    monkeypatch.setattr(cross_entropy, "CHUNK", 9000)
    everything = torch.ones_like(targets, dtype=torch.bool)
    with Largest() as largest, torch.no_grad():
        # not the operator, which the mode would see from outside alone
        sum_in_chunks(hidden, weight, bias, targets, everything, torch.float32, True)
        token_losses(hidden, weight, bias, targets)
    assert 0 < largest.numbers <= 9000 < 400 * 300


def test_only_scored_places_count() -> None:
    hidden, weight, bias, targets = drawn(12, 7)
    scored = torch.arange(12) % 3 == 1
    spread = [x.reshape(3, 4, *x.shape[1:]) for x in (hidden, targets, scored)]
    loss = chunked_cross_entropy(spread[0], weight, bias, *spread[1:])
    expected = F.cross_entropy(F.linear(hidden[scored], weight, bias), targets[scored])
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    gradients = torch.autograd.grad(loss, (hidden, weight, bias))
    for item, other in zip(gradients, torch.autograd.grad(expected, (hidden, weight, bias)), strict=True):
        torch.testing.assert_close(item, other, rtol=1e-10, atol=1e-12)
    assert not gradients[0][~scored].any()


def test_nothing_to_score_costs_nothing() -> None:
    hidden, weight, bias, targets = drawn(0, 5)
    loss = chunked_cross_entropy(hidden, weight, bias, targets)
    loss.backward()
    assert loss.item() == 0 and not weight.grad.any()
    assert [len(result) for result in token_losses(hidden, weight, bias, targets)] == [0, 0]


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_half_precision_stays_close(scale: float) -> None:
    hidden, weight, bias, targets = drawn(40, 50, torch.float32)
    hidden = (scale * hidden).detach().requires_grad_()
    expected = F.cross_entropy(F.linear(hidden, weight, bias), targets)
    with torch.autocast("cpu", torch.bfloat16):
        loss = chunked_cross_entropy(hidden, weight, bias, targets)
    gradients = torch.autograd.grad(loss, (hidden, weight, bias))
    assert math.isclose(loss.item(), expected.item(), rel_tol=0.02)
    for item, other in zip(gradients, torch.autograd.grad(expected, (hidden, weight, bias)), strict=True):
        assert item.dtype == torch.float32
        assert (item - other).norm() < 0.1 * other.norm()
