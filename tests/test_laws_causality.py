"""Law 2: nothing of the future in the past, and one step at a time gives what the whole sequence gives."""

from dataclasses import fields

import pytest
import torch
from support.model_cases import Case, apply, every_attention, masks
from torch import Tensor

from attnlab.attention.base import State

TOLERANCE = 1e-11


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def assert_rows(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=TOLERANCE, atol=TOLERANCE)


@every_attention("causality", modes=["causal"])
def test_the_future_changes_nothing(case: Case, mode: str) -> None:
    """Also across the border of two chunks (64)."""
    attention = case.make()
    for length, places in ((6, range(5)), (70, (0, 62, 63, 64, 68))):
        x = draw(2, length, 8)
        out, _ = apply(attention, mode, x, None, None)
        for place in places:
            other = x.clone()
            other[:, place + 1 :] = 100 * draw(2, length - place - 1, 8)
            changed, _ = apply(attention, mode, other, None, None)
            torch.testing.assert_close(changed[:, : place + 1], out[:, : place + 1], rtol=1e-12, atol=1e-12)
            assert not torch.equal(changed[:, place + 1 :], out[:, place + 1 :])


@every_attention("causality", modes=["causal"])
def test_a_huge_future_rounds_nothing_of_the_past_away(case: Case, mode: str) -> None:
    """In float32, where a difference of two running sums would lose it: chunk 2 of 3 holds the past and the future."""
    attention = case.make().float()
    x = draw(1, 150, 8).float()
    other = x.clone()
    other[:, 100:] = 1e6 * draw(1, 50, 8).float()
    out, changed = (apply(attention, mode, y, None, None)[0][:, :100] for y in (x, other))
    torch.testing.assert_close(changed, out, rtol=1e-5, atol=1e-6)


@every_attention("causality", modes=["causal"])
def test_gradients_reach_the_past_only(case: Case, mode: str) -> None:
    """And to all of it; where scores pass a relu, for some parameters rather than for all."""
    past, reached = torch.ones(5, 5).tril().bool(), torch.zeros(5, 5).bool()
    for seed in range(16):
        attention, x = case.make(seed), draw(1, 5, 8)
        jacobian = torch.autograd.functional.jacobian(lambda y, f=attention: apply(f, mode, y, None, None)[0][0], x)
        reached |= jacobian.abs().amax((1, 2, 4)) > 0
        assert not reached[~past].any()
        if reached[past].all():
            return
    raise AssertionError(f"no gradient from column to row: {reached}")


@pytest.mark.parametrize("length", [7, 66])
@every_attention("step", modes=["causal"])
def test_steps_equal_the_causal_form(case: Case, mode: str, length: int) -> None:
    attention, x = case.make(), draw(3, length, 8)
    expected, _ = apply(attention, mode, x, None, None)
    masked, _ = apply(attention, mode, x, None, masks([length, 3, 1], length))
    state = attention.init_state(3)
    for place in range(length):
        assert state.position == place
        out, state = attention.step(x[:, place : place + 1], state)
        assert_rows(out[:, 0], expected[:, place])
        real = torch.tensor([place < size for size in (length, 3, 1)])
        assert_rows(out[real, 0], masked[real, place])


@pytest.mark.parametrize("content", [0.7, torch.finfo(torch.float64).max])
@every_attention("step", modes=["cross"])
def test_steps_equal_cross_attention(case: Case, mode: str, content: float) -> None:
    attention, x, memory, mask = case.make(), draw(4, 5, 8), draw(4, 6, 8), masks([6, 2, 0, 1], 6)
    for given, read in ((None, memory), (mask, memory.masked_fill(~mask[:, :, None], content))):
        expected, _ = apply(attention, mode, x, read, given)
        state = attention.init_state(4, read, given)
        for place in range(5):
            out, state = attention.step(x[:, place : place + 1], state)
            assert_rows(out[:, 0], expected[:, place])


@every_attention("step", modes=["causal", "cross"])
def test_selected_rows_go_on_alone(case: Case, mode: str) -> None:
    attention, x = case.make(), draw(4, 6, 8)
    memory, mask = (draw(4, 5, 8), masks([5, 2, 3, 1], 5)) if mode == "cross" else (None, None)
    expected, _ = apply(attention, mode, x, memory, mask)
    for rows in (torch.tensor([2, 0]), torch.tensor([False, True, False, True])):
        state = attention.init_state(4, memory, mask)
        for place in range(3):
            _, state = attention.step(x[:, place : place + 1], state)
        state = state.select(rows)
        for place in range(3, 6):
            out, state = attention.step(x[rows, place : place + 1], state)
            assert_rows(out[:, 0], expected[rows, place])


def numbers_held(state: State) -> int:
    """Numbers in a state's tensors, of all rows together."""
    values = [getattr(state, field.name) for field in fields(state)]
    return sum(value.numel() for value in values if isinstance(value, Tensor))


@every_attention("step", modes=["causal"])
def test_a_state_holds_as_many_numbers_as_it_says(case: Case, mode: str) -> None:
    attention, state = case.make(), case.make().init_state(2)
    for place in range(10):
        _, state = attention.step(draw(2, 1, 8), state)
        assert numbers_held(state) == 2 * attention.state_size(place + 1)
