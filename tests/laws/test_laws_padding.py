"""Law 1: padding of any length and any finite content changes no output and no gradient at real positions."""

from collections.abc import Callable
from itertools import product

import pytest
import torch
from support.model_cases import (
    Case,
    apply,
    decoder_only_networks,
    distinct_for,
    every_attention,
    every_network,
    network_of,
)
from support.tensors import assert_same, gradients, masks
from torch import Tensor, nn

from attnlab.kernels.linear_map import FEWEST_POSITIONS

TOLERANCE = 1e-10
# Of a masked sequence any finite number; of cross-attention's queries, which have no mask, one whose square is finite.
CONTENTS = ((0.7, 0.7), (1e30, 1e30), (-torch.finfo(torch.float64).max, -1e30))
LENGTHS = (5, 2, 0, 1)


def padded(x: Tensor, extra: int, content: float) -> Tensor:
    """x with `extra` more positions, filled with `content` of alternating sign."""
    filling = torch.full((len(x), extra, x.shape[2]), content, dtype=x.dtype)
    filling[:, :, ::2] *= -1
    return torch.cat((x.detach(), filling), dim=1).requires_grad_()


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@every_attention("padding")
def test_padding_changes_nothing(case: Case, mode: str) -> None:
    attention = case.make()
    x, memory, weights = draw(3, 5, 8), draw(3, 4, 8) if mode == "cross" else None, draw(3, 5, 8).detach()
    out, penalty = apply(attention, mode, x, memory, None)
    expected = gradients((out * weights).sum() + penalty, attention, x=x, memory=memory) | {"out": out}
    for extra, (content, query_content) in product((1, 3, 70), CONTENTS):
        longer = padded(x, extra, content if memory is None else query_content)
        longer_memory = None if memory is None else padded(memory, extra, content)
        source, size = (longer, 5) if memory is None else (longer_memory, 4)
        mask = masks([size] * 3, source.shape[1])
        out, penalty = apply(attention, mode, longer, longer_memory, mask)
        actual = gradients((out[:, :5] * weights).sum() + penalty, attention, x=longer, memory=longer_memory)
        for name in ("x", "memory"):
            if name in actual:
                size = expected[name].shape[1]
                assert (actual[name][:, size:] == 0).all(), f"{name}: a gradient at padding is not 0"
                actual[name] = actual[name][:, :size]
        assert_same(actual | {"out": out[:, :5]}, expected, TOLERANCE)


@every_attention("padding", normalized=False)
def test_a_large_batch_equals_its_rows(case: Case, mode: str) -> None:
    """At sizes from which products of several projections are joined (kernels.linear_map)."""
    attention, x = case.make(), draw(FEWEST_POSITIONS // 4, 4, 8)
    memory = draw(*x.shape) if mode == "cross" else None
    out, _ = apply(attention, mode, x, memory, None)
    first, _ = apply(attention, mode, x[:3], None if memory is None else memory[:3], None)
    torch.testing.assert_close(out[:3], first, rtol=1e-10, atol=1e-10)


@every_attention("padding")
def test_rows_of_different_length_do_not_meet(case: Case, mode: str) -> None:
    """Each sample of a ragged batch gives what it gives alone; a sample without any real position disturbs none."""
    attention = case.make()
    x, memory = draw(4, 5, 8), draw(4, 5, 8) if mode == "cross" else None
    weights = torch.randn(4, 5, 8, dtype=torch.float64)
    source = x if memory is None else memory
    out, _ = apply(attention, mode, x, memory, masks(LENGTHS, 5))
    read = masks(LENGTHS, 5) if memory is None else masks([5, 5, 0, 5], 5)
    actual = gradients((out * weights)[read].sum(), attention, x=x, memory=memory)
    expected = {name: torch.zeros_like(gradient) for name, gradient in actual.items()}
    for b, length in enumerate(LENGTHS):
        if length == 0:
            continue
        queries = slice(0, length if memory is None else 5)
        alone = source[b : b + 1, :length].detach().requires_grad_()
        query_source = alone if memory is None else x[b : b + 1].detach().requires_grad_()
        out_alone, _ = apply(attention, mode, query_source, alone, None)
        torch.testing.assert_close(out[b, queries], out_alone[0], rtol=TOLERANCE, atol=TOLERANCE)
        loss = (out_alone[0] * weights[b, queries]).sum()
        more = gradients(loss, attention, x=query_source, memory=None if memory is None else alone)
        for name, gradient in more.items():
            target = expected[name][b, : gradient.shape[1]] if name in ("x", "memory") else expected[name]
            target += gradient[0] if name in ("x", "memory") else gradient
    assert_same(actual, expected, TOLERANCE)


@every_network()
def test_padding_changes_no_sequence_network(model: str, positions: str) -> None:
    check_padding(network_of(model, "scan", positions=positions))


@decoder_only_networks()
def test_padding_changes_no_decoder_only_network(network: Callable[[], nn.Module]) -> None:
    check_padding(network())


def check_padding(network: nn.Module) -> None:
    inputs, read = torch.randint(7, (3, 4)), torch.randint(6, (3, 5))
    real_inputs, real_read = masks([4, 2, 1], 4), masks([5, 1, 3], 5)
    weights = torch.randn(3, 5, 6, dtype=torch.float64) * real_read[:, :, None]
    logits, penalty = network(inputs, real_inputs, read, real_read)
    expected = gradients((logits * weights).sum() + penalty, network) | {"logits": logits[real_read]}
    for extra, content in ((1, 0), (3, 5), (70, 2)):
        longer, longer_read = (
            torch.nn.functional.pad(torch.where(mask, tokens, content), (0, extra), value=content)
            for tokens, mask in ((inputs, real_inputs), (read, real_read))
        )
        longer_mask, longer_read_mask = masks([4, 2, 1], 4 + extra), masks([5, 1, 3], 5 + extra)
        logits, penalty = network(longer, longer_mask, longer_read, longer_read_mask)
        actual = gradients((logits[:, :5] * weights).sum() + penalty, network)
        assert_same(actual | {"logits": logits[longer_read_mask]}, expected, TOLERANCE)


@pytest.mark.parametrize("model", distinct_for("sort_of_clevr"))
def test_padding_changes_no_image_network(model: str) -> None:
    """Its images have no padding; its encoder must bear some all the same."""
    network = network_of(model, "sort_of_clevr")
    images, questions = torch.randint(256, (3, 30, 30, 3)).byte(), torch.randint(2, (3, 4)).byte()
    logits, penalty = network(images, questions)
    expected = gradients(logits.square().sum() + penalty, network) | {"logits": logits}
    for extra, content in ((1, 0.7), (70, 1e30)):
        longer = torch.nn.functional.pad(network.embedding(images, questions), (0, 0, 0, extra), value=content)
        out, penalties = network.encoder(longer, masks([longer.shape[1] - extra] * 3, longer.shape[1]), False)
        logits = network.output(out[:, 0])
        penalty = torch.stack(penalties).mean() if penalties else torch.zeros(())
        actual = gradients(logits.square().sum() + penalty, network)
        assert_same(actual | {"logits": logits}, expected, TOLERANCE)
