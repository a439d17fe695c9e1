"""Cross-entropy in chunks: equal to torch's, without the logits of a whole batch."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from support.model_cases import SPECS, network_of
from support.random_batches import drawn_batch
from support.tensors import gradients
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.utils._python_dispatch import TorchDispatchMode

from attnlab.data.batch import LanguageBatch
from attnlab.kernels import cross_entropy
from attnlab.kernels.cross_entropy import chunked_cross_entropy, sum_in_chunks, token_losses
from attnlab.tasks.kinds.base import kind_of


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
        found = torch.autograd.grad(3 * loss, (hidden, weight, bias))
        each, right = token_losses(hidden, weight, bias, targets)
    logits = F.linear(hidden, weight, bias)
    expected = F.cross_entropy(logits, targets)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    for one, other in zip(found, torch.autograd.grad(3 * expected, (hidden, weight, bias)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(each.mean().double(), expected.detach(), rtol=1e-5, atol=1e-6)
    assert right.tolist() == (logits.argmax(-1) == targets).tolist()


def test_gradients_of_some_inputs_alone() -> None:
    hidden, weight, bias, targets = drawn(5, 4)
    loss = chunked_cross_entropy(hidden.detach(), weight, bias.detach(), targets)
    expected = F.cross_entropy(F.linear(hidden, weight, bias), targets)
    (found,) = torch.autograd.grad(loss, [weight])
    torch.testing.assert_close(found, torch.autograd.grad(expected, [weight])[0], rtol=1e-10, atol=1e-12)
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
    found = torch.autograd.grad(loss, (hidden, weight, bias))
    for one, other in zip(found, torch.autograd.grad(expected, (hidden, weight, bias)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
    assert not found[0][~scored].any()


@pytest.mark.parametrize("shared", [False, True])
def test_members_at_once_are_members_one_by_one(shared: bool) -> None:
    """Under vmap, with gradients taken outside and inside of it; with weights of each member and of all."""
    generator = torch.Generator().manual_seed(0)
    given = [torch.randn(3, *shape, generator=generator, dtype=torch.float64) for shape in ((2, 5, 4), (7, 4), (7,))]
    targets, scored = torch.randint(7, (3, 2, 5), generator=generator), torch.rand(3, 2, 5, generator=generator) < 0.5
    weights, dim = ([x[0] for x in given[1:]], None) if shared else (given[1:], 0)
    leaves = [x.requires_grad_() for x in (given[0], *weights)]
    alone = [
        chunked_cross_entropy(leaves[0][k], *(x if shared else x[k] for x in leaves[1:]), targets[k], scored[k])
        for k in range(3)
    ]
    dims = (0, dim, dim, 0, 0)
    together = vmap(chunked_cross_entropy, in_dims=dims)(*leaves, targets, scored)
    torch.testing.assert_close(together, torch.stack(alone), rtol=1e-12, atol=1e-12)
    expected = torch.autograd.grad(sum(alone), leaves)
    inside = vmap(grad(chunked_cross_entropy, argnums=(0, 1, 2)), in_dims=dims)(*leaves, targets, scored)
    for one, other, of_each in zip(torch.autograd.grad(together.sum(), leaves), expected, inside, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(of_each if of_each.shape == other.shape else of_each.sum(0), other)


@pytest.mark.parametrize("task", ["flip_flop", "wikitext103_masked"])
def test_stacked_language_models_equal_single_ones(task: str) -> None:
    networks, batches = [network_of("linear_l2_ortho", task, seed) for seed in range(2)], [drawn_batch(task, 0)] * 2
    objective = kind_of(SPECS[task]).loss

    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = networks[0]

        def forward(self, fields: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
            return objective(self.network, LanguageBatch(**fields))

    stacked, _ = stack_module_state(networks)
    fields = {name: torch.stack([vars(batch)[name] for batch in batches]) for name in batches[0].tensors()}
    fields["scored"][1, :, 0] = False

    def member(parameters: dict[str, Tensor], given: dict[str, Tensor]) -> Tensor:
        named = {f"network.{name}": value for name, value in parameters.items()}
        loss, penalty = functional_call(Step(), named, (given,))
        return loss + penalty

    found = vmap(member)(stacked, fields)
    slopes = torch.autograd.grad(found.sum(), list(stacked.values()))
    for k, network in enumerate(networks):
        loss, penalty = objective(network, LanguageBatch(**{name: value[k] for name, value in fields.items()}))
        torch.testing.assert_close(found[k], loss + penalty, rtol=1e-10, atol=1e-12)
        for name, value in gradients(loss + penalty, network).items():
            slope = slopes[list(stacked).index(name)][k]
            torch.testing.assert_close(slope, value, rtol=1e-8, atol=1e-10, msg=name)


def test_nothing_to_score_costs_nothing() -> None:
    hidden, weight, bias, targets = drawn(0, 5)
    loss = chunked_cross_entropy(hidden, weight, bias, targets)
    loss.backward()
    assert loss.item() == 0 and not weight.grad.any()
    assert [len(found) for found in token_losses(hidden, weight, bias, targets)] == [0, 0]


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_half_precision_stays_close(scale: float) -> None:
    hidden, weight, bias, targets = drawn(40, 50, torch.float32)
    hidden = (scale * hidden).detach().requires_grad_()
    expected = F.cross_entropy(F.linear(hidden, weight, bias), targets)
    with torch.autocast("cpu", torch.bfloat16):
        loss = chunked_cross_entropy(hidden, weight, bias, targets)
    found = torch.autograd.grad(loss, (hidden, weight, bias))
    assert math.isclose(loss.item(), expected.item(), rel_tol=0.02)
    for one, other in zip(found, torch.autograd.grad(expected, (hidden, weight, bias)), strict=True):
        assert one.dtype == torch.float32
        assert (one - other).norm() < 0.1 * other.norm()
