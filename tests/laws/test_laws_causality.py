"""Law 2: the future changes nothing in the past, and incremental decoding equals the causal form."""

from collections.abc import Callable
from dataclasses import fields

import torch
from support.model_cases import Case, apply, decoder_only_networks, every_attention
from support.tensors import draw, masks
from torch import Tensor, nn

from attnlab.attention.base import Attention, State

TOLERANCE = 1e-11


def assert_rows(actual: Tensor, expected: Tensor, where: str, tolerance: float = TOLERANCE) -> None:
    """Tensors are equal; a failure says what was compared, at which position."""
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, msg=lambda text: f"{where}: {text}")


@every_attention("causality", modes=["causal"])
def test_the_future_changes_nothing(case: Case, mode: str) -> None:
    """Also across the border of two chunks (64)."""
    attention = case.make()
    for length, positions in ((6, range(5)), (70, (0, 62, 63, 64, 68))):
        x = draw(2, length, 8)
        out, _ = apply(attention, mode, x, None, None)
        for position in positions:
            other = x.clone()
            other[:, position + 1 :] = 100 * draw(2, length - position - 1, 8)
            changed, _ = apply(attention, mode, other, None, None)
            what = f"outputs (sample, position, column), changed with the inputs after position {position} of {length}"
            assert_rows(changed[:, : position + 1], out[:, : position + 1], what, 1e-12)
            assert not torch.equal(changed[:, position + 1 :], out[:, position + 1 :])


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
    """And all of it, or as far as the mechanism declares; where scores pass a relu, only for some parameters."""
    past, reached = torch.ones(5, 5).tril().bool(), torch.zeros(5, 5).bool()
    if (reach := case.make().causal_reach) is not None:
        past = past.triu(1 - reach)
    for seed in range(16):
        attention, x = case.make(seed), draw(1, 5, 8)
        jacobian = torch.autograd.functional.jacobian(lambda y, f=attention: apply(f, mode, y, None, None)[0][0], x)
        reached |= jacobian.abs().amax((1, 2, 4)) > 0
        early = (reached & ~past).nonzero().tolist()
        assert not early, f"output i has a gradient from position j, which it may not see: [i, j] = {early}"
        if reached[past].all():
            return
    missing = (past & ~reached).nonzero().tolist()
    raise AssertionError(f"output i has no gradient from position j (see causal_reach): [i, j] = {missing}")


@every_attention("step", modes=["causal"])
def test_steps_equal_the_causal_form(case: Case, mode: str) -> None:
    """Within one chunk, and across the border of two (64); `prefill` gives the same states."""
    for length in (7, 66):
        attention, x = case.make(), draw(3, length, 8)
        expected, _ = apply(attention, mode, x, None, None)
        masked, _ = apply(attention, mode, x, None, masks([length, 3, 1], length))
        state = attention.init_state(3)
        for position in range(length):
            assert state.position == position
            out, state = attention.step(x[:, position : position + 1], state)
            what = f"step at position {position} of {length}, beside the causal form"
            assert_rows(out[:, 0], expected[:, position], what)
            real = torch.tensor([position < size for size in (length, 3, 1)])
            assert_rows(out[real, 0], masked[real, position], f"{what} with padding")
            if position in (0, 6, 63, 65):
                check_prefill(case, attention, x[:, : position + 1], state)


def check_prefill(case: Case, attention: Attention, x: Tensor, state: State) -> None:
    for mode in set(case.modes()) & {"causal", "bidirectional"}:
        out, after = attention.prefill(x, mode == "bidirectional")
        assert_rows(out, apply(attention, mode, x, None, None)[0], f"prefill of {x.shape[1]} positions")
        assert type(after) is type(state)
        for name, value in vars(state).items():
            assert_rows(getattr(after, name), value, f"state.{name} after prefill of {x.shape[1]} positions")


@every_attention("step", modes=["cross"])
def test_steps_equal_cross_attention(case: Case, mode: str) -> None:
    """Without a mask, and with any finite content in the padding."""
    attention, x, memory, mask = case.make(), draw(4, 5, 8), draw(4, 6, 8), masks([6, 2, 0, 1], 6)
    padded = [memory.masked_fill(~mask[:, :, None], content) for content in (0.7, torch.finfo(torch.float64).max)]
    for inputs, read in ((None, memory), *((mask, content) for content in padded)):
        expected, _ = apply(attention, mode, x, read, inputs)
        state = attention.init_state(4, read, inputs)
        for position in range(5):
            out, state = attention.step(x[:, position : position + 1], state)
            assert_rows(out[:, 0], expected[:, position], f"step at position {position}, beside cross-attention")


@every_attention("step", modes=["causal", "cross"])
def test_selected_rows_go_on_alone(case: Case, mode: str) -> None:
    attention, x = case.make(), draw(4, 6, 8)
    memory, mask = (draw(4, 5, 8), masks([5, 2, 3, 1], 5)) if mode == "cross" else (None, None)
    expected, _ = apply(attention, mode, x, memory, mask)
    for rows in (torch.tensor([2, 0]), torch.tensor([False, True, False, True])):
        state = attention.init_state(4, memory, mask)
        for position in range(3):
            _, state = attention.step(x[:, position : position + 1], state)
        state = state.select(rows)
        for position in range(3, 6):
            out, state = attention.step(x[rows, position : position + 1], state)
            assert_rows(out[:, 0], expected[rows, position], f"step at position {position} of selected rows")


@decoder_only_networks()
def test_the_future_changes_nothing_in_a_decoder_only_network(network: Callable[[], nn.Module]) -> None:
    """Neither the output after a token nor, in what the network reads of a bidirectional prefix, the output."""
    net, inputs, read = network(), torch.randint(7, (3, 5)), torch.randint(6, (3, 5))
    input_mask, read_mask = masks([5, 2, 3], 5), torch.ones(3, 5).bool()
    logits, _ = net(inputs, input_mask, read, read_mask)
    for position in range(4):
        other = read.clone()
        other[:, position + 1 :] = (read[:, position + 1 :] + 1) % 6
        changed, _ = net(inputs, input_mask, other, read_mask)
        torch.testing.assert_close(changed[:, : position + 1], logits[:, : position + 1], rtol=1e-12, atol=1e-12)
        assert not torch.equal(changed[:, position + 1 :], logits[:, position + 1 :])
    first = inputs.clone()
    first[:, 0] = (inputs[:, 0] + 1) % 7
    changed = (net(first, input_mask, read, read_mask)[0] != logits).any(-1)
    sees_all = all(getattr(part, "causal_reach", None) is None for part in net.modules())
    assert changed.all() if sees_all else changed[:, 0].any()


def numbers_held(state: State) -> int:
    """Numbers in a state's tensors, of all rows together."""
    values = [getattr(state, field.name) for field in fields(state)]
    return sum(value.numel() for value in values if isinstance(value, Tensor))


@every_attention("step", modes=["causal"])
def test_a_state_holds_as_many_numbers_as_it_says(case: Case, mode: str) -> None:
    attention, state = case.make(), case.make().init_state(2)
    for position in range(10):
        _, state = attention.step(draw(2, 1, 8), state)
        assert numbers_held(state) == 2 * attention.state_size(position + 1)
