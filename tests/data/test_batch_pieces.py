"""Microbatches: no example is lost, the token limit holds, the gradient is equal."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.gpu import requires_gpu
from support.model_cases import config_of, network_of
from support.tensors import gradients
from torch import Tensor
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

from attnlab.config.schema import Config, piece_tokens
from attnlab.data.batch import Batch, LabelledPairBatch, LanguageBatch, SequenceBatch
from attnlab.data.examples import LabelledPairs, SequencePairs
from attnlab.data.ragged_arrays import Ragged
from attnlab.learn import training_module
from attnlab.learn.training_module import TrainingModule

LENGTHS = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 9)), min_size=1, max_size=14)


def sequences(lengths: list[int], seed: int = 0) -> list[list[int]]:
    draw = np.random.default_rng(seed)
    return [draw.integers(3, 6, length).tolist() for length in lengths]


def pairs(lengths: list[tuple[int, int]]) -> SequencePairs:
    inputs, targets = zip(*lengths, strict=True)
    return SequencePairs.of(sequences(inputs), sequences(targets, 1), 0)


def weight(batch: Batch) -> int:
    return int(batch.counts.sum())


def padded(batch: Batch) -> int:
    return sum(int(extent.max()) for extent in batch.extents) * len(batch)


@settings(max_examples=80, deadline=None)
@given(lengths=LENGTHS, limit=st.integers(1, 120))
def test_pieces_are_the_batch(lengths: list[tuple[int, int]], limit: int) -> None:
    examples = pairs(lengths)
    batch = examples.batch(np.arange(len(lengths)))
    pieces = batch.pieces(limit)
    assert sorted(torch.cat([piece.index for piece in pieces]).tolist()) == list(range(len(lengths)))
    assert sum(map(weight, pieces)) == weight(batch) == sum(target for _, target in lengths)
    for piece in pieces:
        assert padded(piece) <= limit or len(piece) == 1
        again = examples.batch(piece.index.numpy())
        assert all(torch.equal(value, vars(again)[name]) for name, value in piece.tensors().items())
    assert len(batch.pieces(None)) == 1 and batch.pieces(10**6)[0] is batch


def test_both_sides_of_a_pair_are_cut() -> None:
    examples = LabelledPairs(Ragged.of(sequences([9, 2, 3])), Ragged.of(sequences([1, 8, 2])), np.arange(3), 0)
    pieces = examples.batch(np.arange(3)).pieces(10)
    assert [piece.index.tolist() for piece in pieces] == [[2], [0], [1]]
    assert [(piece.inputs.shape[1], piece.others.shape[1]) for piece in pieces] == [(3, 2), (9, 1), (2, 8)]
    assert all(isinstance(piece, LabelledPairBatch) for piece in pieces)


def test_a_language_batch_counts_what_it_scores() -> None:
    scored = torch.tensor([[True, False, True, False], [True, False, False, False]])
    tokens = torch.arange(8).reshape(2, 4)
    lengths = torch.tensor([4, 2])
    batch = LanguageBatch(
        index=torch.arange(2), inputs=tokens, lengths=lengths, targets=tokens, scored=scored, words=lengths
    )
    short, long = batch.pieces(4)
    assert (short.index.tolist(), short.inputs.tolist(), weight(short)) == ([1], [[4, 5]], 1)
    assert (long.index.tolist(), long.scored.tolist(), weight(long)) == ([0], [[True, False, True, False]], 2)


def over_two_pieces(device: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Tensor, Tensor, list[torch.device]]:
    """Gradients through dropout of a batch in two pieces, recomputed and kept; devices that `checkpoint` sees."""
    seen = []

    def watched(*inputs: Any, **options: Any) -> Any:
        seen.extend(x.device for x in tree_leaves(inputs) if isinstance(x, Tensor))
        return checkpoint(*inputs, **options)

    monkeypatch.setattr(training_module, "checkpoint", watched)
    batch = pairs([(2, 3), (4, 1), (4, 7)]).batch(np.arange(3)).to(device)
    weight = torch.ones(1000, device=device, requires_grad=True)

    def loss(piece: Batch) -> tuple[Tensor, Tensor]:
        return torch.dropout(weight, 0.5, train=True).sum() * piece.counts.sum(), weight.new_zeros(())

    pieces, result = batch.pieces(14), []
    assert len(pieces) == 2
    for recomputed in (True, False):
        torch.manual_seed(0)
        if recomputed:
            total = training_module.over_pieces(loss, pieces, [piece.counts.sum() for piece in pieces])[0]
        else:
            counts = [piece.counts.sum() for piece in pieces]
            total = sum(count * loss(piece)[0] for count, piece in zip(counts, pieces, strict=True)) / sum(counts)
        result.append(torch.autograd.grad(total, weight)[0])
    return *result, seen


def test_recomputed_pieces_drop_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """`checkpoint` restores the random states of the devices of the tensors that it sees, and sees none in a batch."""
    recomputed, kept, seen = over_two_pieces("cpu", monkeypatch)
    assert torch.equal(recomputed, kept) and len(kept.unique()) > 2
    assert seen == [torch.device("cpu")] * 2


@requires_gpu
def test_recomputed_pieces_drop_the_same_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    recomputed, kept, _ = over_two_pieces("cuda", monkeypatch)
    assert torch.equal(recomputed, kept) and len(kept.unique()) > 2


def with_limit(config: Config, limit: int | None) -> Config:
    return replace(config, train=replace(config.train, max_tokens=limit))


@pytest.mark.parametrize("model", ["linear_l2_ortho", "vanilla"])
def test_the_gradient_stays_that_of_the_whole(model: str) -> None:
    """The penalty is a mean over sequences of two real tokens and more, as all here are."""
    network = network_of(model, "scan")
    batch = pairs([(2, 3), (9, 1), (4, 7), (5, 5), (3, 2)]).batch(np.arange(5))
    assert isinstance(batch, SequenceBatch) and len(batch.pieces(14)) > 2
    from support.model_cases import SPECS

    collected = []
    for limit in (None, 14):
        module = TrainingModule(with_limit(config_of(model), limit), network, SPECS["scan"])
        loss = module.training_step(batch, 0)
        collected.append((loss.detach(), gradients(loss, network)))
    torch.testing.assert_close(collected[0][0], collected[1][0], rtol=1e-12, atol=1e-12)
    for name, value in collected[0][1].items():
        torch.testing.assert_close(value, collected[1][1][name], rtol=1e-9, atol=1e-12, msg=name)


@settings(max_examples=80, deadline=None)
@given(lengths=LENGTHS, limit=st.none() | st.integers(1, 120), parts=st.integers(1, 5))
def test_pieces_have_a_part_of_the_examples(lengths: list[tuple[int, int]], limit: int | None, parts: int) -> None:
    pieces = pairs(lengths).batch(np.arange(len(lengths))).pieces(limit, parts)
    assert sorted(torch.cat([piece.index for piece in pieces]).tolist()) == list(range(len(lengths)))
    assert max(map(len, pieces)) <= -(-len(lengths) // parts)
    assert limit is None or all(padded(piece) <= limit or len(piece) == 1 for piece in pieces)


def test_accumulated_batches_have_the_gradient_of_one_batch() -> None:
    """Lengths that differ: the mean of two means is not the mean of all tokens. The memory is that of one batch."""
    network, config = network_of("linear_l2_ortho", "scan"), config_of("linear_l2_ortho")
    batch = pairs([(2, 3), (9, 2), (4, 7), (5, 5), (3, 2), (8, 9)]).batch(np.arange(6))
    from support.model_cases import SPECS

    collected, sizes = [], []
    for batches in (1, 3):
        module = TrainingModule(
            replace(config, train=replace(config.train, accumulate=batches)), network, SPECS["scan"]
        )
        objective = module.objective
        module.objective = lambda network, piece, objective=objective: (
            sizes.append(len(piece)) or objective(network, piece)
        )
        loss = module.training_step(batch, 0)
        numbers = {name: float(value) for name, value in module.metrics.items()}
        collected.append((loss.detach(), numbers, gradients(loss, network)))
    assert max(sizes) == 2
    torch.testing.assert_close(collected[0], collected[1], rtol=1e-9, atol=1e-12)


def test_tokens_of_accumulated_batches_are_limited_as_those_of_one() -> None:
    train = config_of("linear").train
    assert piece_tokens(train) is None and piece_tokens(replace(train, batch_tokens=500)) is None
    several = replace(train, accumulate=2, batch_tokens=500)
    assert piece_tokens(several) == piece_tokens(replace(several, max_tokens=900)) == 500
    assert piece_tokens(replace(several, max_tokens=90)) == 90
