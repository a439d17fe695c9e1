"""Attention diagnostics report the real computation and leave the network unchanged."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from support.incremental_decoding import two_kinds
from support.model_cases import SPECS, TASKS, distinct_for, network_of
from torch import Tensor, nn

from attnlab.analysis.attention_tensors import QUANTITIES, Diagnosis, diagnose
from attnlab.attention import base
from attnlab.data.batch import Batch, ImageQuestionBatch, SequenceBatch
from attnlab.nn.attention_observer import observed
from attnlab.nn.transformer_block import ParallelAttention
from attnlab.tasks.kinds.base import kind_of

PAIRS = [(task, model) for task in TASKS for model in distinct_for(task)]
SCAN_NAMES = [f"encoder.layers.{i}.attention" for i in range(2)] + [
    f"decoder.layers.{i}.{part}" for i in range(2) for part in ("attention", "cross")
]


def batch_of(task: str) -> Batch:
    """Three examples, for SCAN of different lengths."""
    index = torch.arange(3)
    if task == "sort_of_clevr":
        return ImageQuestionBatch(
            index=index,
            images=torch.randint(256, (3, *SPECS[task].image_shape)).byte(),
            questions=torch.randint(2, (3, 4)).byte(),
            answers=torch.randint(3, (3,)),
            groups=torch.zeros(3, dtype=torch.long),
        )
    return SequenceBatch(
        index=index,
        inputs=torch.randint(7, (3, 4)),
        input_lengths=torch.tensor([4, 2, 1]),
        targets=torch.randint(6, (3, 5)),
        target_lengths=torch.tensor([5, 1, 3]),
    )


def diagnosed(network: nn.Module, task: str, *wanted: str) -> dict[str, Diagnosis]:
    torch.manual_seed(1)
    return diagnose(network, batch_of(task), kind_of(SPECS[task]).loss, wanted or QUANTITIES)


def loss_of(network: nn.Module, task: str) -> Tensor:
    """The loss whose gradients `diagnosed` reports."""
    torch.manual_seed(1)
    return kind_of(SPECS[task]).loss(network, batch_of(task))[0]


def expected_names(network: nn.Module) -> set[str]:
    """One name for each use of each attention."""
    names = set()
    for stack in ("encoder", "decoder") if hasattr(network, "decoder") else ("encoder",):
        applications = getattr(network, stack).applications
        for use, index in enumerate(applications):
            number = applications[:use].count(index) + 1
            for part in ("attention", "cross") if stack == "decoder" else ("attention",):
                path = f"{stack}.layers.{index}.{part}"
                module = network.get_submodule(path)
                members = len(module.attentions) if isinstance(module, ParallelAttention) else 0
                paths = [f"{path}.attentions.{i}" for i in range(members)] or [path]
                names |= {path if number == 1 else f"{path}#{number}" for path in paths}
    return names


@pytest.mark.parametrize(("task", "model"), PAIRS)
def test_every_model_can_be_diagnosed(task: str, model: str) -> None:
    """Shapes, finite values, masked weights, and score gradients of the whole network."""
    network = network_of(model, task)
    result = diagnosed(network, task)
    assert set(result) == expected_names(network)
    for name, item in result.items():
        batch, _, n_queries = item.query_norms.shape
        assert (batch, n_queries, item.key_norms.shape[2]) == (*item.weights.shape[::2], item.weights.shape[3]), name
        assert item.values.shape[::2] == (batch, item.weights.shape[3]), name
        for value in (item.query_norms, item.key_norms, item.values, item.weights, item.score_gradients):
            assert value is None or (value.isfinite().all() and not value.requires_grad), name
        if item.mask is not None:
            assert not item.weights[~item.mask[:, None, None].expand_as(item.weights)].any(), name
        if item.causal:
            assert not item.weights.triu(1).any(), name
    check_score_gradients(network, task, result)


def check_score_gradients(network: nn.Module, task: str, result: dict[str, Diagnosis]) -> None:
    """Against autograd, in the network with every attention written as weights times values."""
    watched: dict[str, list[Tensor]] = {}

    def watch(name: str, scores: Tensor) -> Tensor:
        watched.setdefault(name, []).append(scores)
        return scores

    def written_out(
        name: str, attention: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool
    ):
        return attention.weights(q, k, mask, causal, partial(watch, name)) @ v

    for name, item in result.items():
        if item.score_gradients is not None:
            attention = network.get_submodule(name.partition("#")[0])
            attention.attend = partial(written_out, name.partition("#")[0], attention)
            # so that a last layer computes all positions, as in the diagnosis
            attention.observer = lambda seen: None
    loss = loss_of(network, task)
    for name, scores in watched.items():
        gradients = torch.autograd.grad(loss, scores, retain_graph=True)
        for number, gradient in enumerate(gradients, start=1):
            reported = result[name if number == 1 else f"{name}#{number}"].score_gradients
            torch.testing.assert_close(reported, gradient, rtol=1e-8, atol=1e-12)


def softmax_scores(attention: nn.Module, q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT / attention.head_width**0.5


def softmax_of(attention: nn.Module, scores: Tensor, keep: Tensor) -> Tensor:
    return scores.masked_fill(~keep, -torch.inf).softmax(-1)


def linear_scores(attention: nn.Module, q: Tensor, k: Tensor) -> Tensor:
    return (F.elu(q / attention.head_width**0.5) + 1) @ (F.elu(k) + 1).mT


def linear_of(attention: nn.Module, scores: Tensor, keep: Tensor) -> Tensor:
    kept = scores * keep
    return kept / (kept.sum(-1, keepdim=True) + 1e-5)


EXPLICIT = {"vanilla": (softmax_scores, softmax_of), "linear": (linear_scores, linear_of)}


@pytest.mark.parametrize("model", EXPLICIT)
def test_score_gradients_and_weights_equal_an_explicit_attention(model: str) -> None:
    """In which no code of the mechanisms takes part; weights of real queries only: to padding it shows other keys."""
    scores_of, weights_of = EXPLICIT[model]
    network, written = network_of(model, "scan"), []

    def attend(attention: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, causal: bool) -> Tensor:
        keep = mask[:, None, None, :].expand(-1, 1, q.shape[2], -1)
        scores = scores_of(attention, q, k)
        weights = weights_of(attention, scores, keep.tril() if causal else keep)
        written.append((scores, weights))
        return weights @ v

    result = diagnosed(network, "scan")
    for name in SCAN_NAMES:
        attention = network.get_submodule(name)
        attention.attend = partial(attend, attention)
    gradients = torch.autograd.grad(loss_of(network, "scan"), [scores for scores, _ in written])
    assert list(result) == SCAN_NAMES
    batch = batch_of("scan")
    for (name, item), (_, weights), gradient in zip(result.items(), written, gradients, strict=True):
        real = batch.input_mask if name.startswith("encoder") else batch.target_mask
        rows = real[:, None].expand(-1, 2, -1)
        torch.testing.assert_close(item.weights[rows], weights[rows], rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(item.score_gradients, gradient, rtol=1e-8, atol=1e-12)
        assert item.score_gradients.abs().max() > 1e-6


@pytest.mark.parametrize("model", ["vanilla", "linear"])
def test_norms_and_values_are_those_of_the_projections(model: str) -> None:
    """Against the outputs of the projections, seen by hooks and cut into heads."""
    network, projected = network_of(model, "scan"), {}
    for name in SCAN_NAMES:
        for part in ("q_proj", "k_proj", "v_proj"):
            projection = network.get_submodule(f"{name}.{part}")
            projection.register_forward_hook(lambda *seen, key=(name, part): projected.update({key: seen[2]}))
    actual = diagnosed(network, "scan", "norms", "values")
    for name, item in actual.items():
        for head in range(2):
            columns = slice(4 * head, 4 * head + 4)
            for part, norms in (("q_proj", item.query_norms), ("k_proj", item.key_norms)):
                rows = projected[name, part][:, :, columns]
                expected = sum(rows[:, :, i] ** 2 for i in range(4)).sqrt()
                torch.testing.assert_close(norms[:, head], expected, rtol=1e-12, atol=0)
            assert torch.equal(item.values[:, head], projected[name, "v_proj"][:, :, columns])


def test_weights_of_softmax_sum_to_one_and_those_of_linear_attention_nearly() -> None:
    """Linear attention's: total / (total + eps)."""
    for item in diagnosed(network_of("vanilla", "scan"), "scan", "weights").values():
        sums = item.weights.sum(-1)
        torch.testing.assert_close(sums, torch.ones_like(sums), rtol=1e-12, atol=0)
    network = network_of("linear", "scan")
    with observed(network) as uses:
        loss_of(network, "scan")
    for name, item in diagnosed(network, "scan", "weights").items():
        seen, attention = uses[name].seen, uses[name].attention
        scores = linear_scores(attention, seen.q, seen.k) * seen.mask[:, None, None, :]
        total = (scores.tril() if seen.causal else scores).sum(-1)
        torch.testing.assert_close(item.weights.sum(-1), total / (total + attention.eps), rtol=1e-12, atol=0)


def test_shared_layers_keep_their_uses_apart() -> None:
    shared, single = (network_of("linear", "sort_of_clevr", n_layers=n, share_layers=True) for n in (3, 1))
    single.load_state_dict(shared.state_dict())
    result, first = diagnosed(shared, "sort_of_clevr"), diagnosed(single, "sort_of_clevr")
    name = "encoder.layers.0.attention"
    assert list(result) == [name, f"{name}#2", f"{name}#3"]
    assert torch.equal(result[name].weights, first[name].weights)
    assert not torch.equal(result[f"{name}#2"].weights, result[name].weights)


def test_members_of_a_parallel_attention_have_their_own_names() -> None:
    network = network_of(two_kinds("parallel"), "scan", n_layers=1)
    result = diagnosed(network, "scan")
    assert set(result) == expected_names(network)
    assert {"encoder.layers.0.attention.attentions.0", "encoder.layers.0.attention.attentions.1"} < set(result)


FIELDS = {"norms": {"query_norms", "key_norms"}}


@pytest.mark.parametrize("wanted", [(), *((name,) for name in QUANTITIES), ("norms", "score_gradients"), QUANTITIES])
def test_only_what_is_wanted_is_computed(wanted: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    network, requested = network_of("vanilla", "scan"), []
    for name in SCAN_NAMES:
        attention = network.get_submodule(name)
        monkeypatch.setattr(attention, "weights", partial(spied, attention.weights, requested), raising=False)
    result = diagnose(network, batch_of("scan"), kind_of(SPECS["scan"]).loss, frozenset(wanted))
    fields = set().union(*(FIELDS.get(name, {name}) for name in wanted))
    for item in result.values():
        for name in ("query_norms", "key_norms", "values", "weights", "score_gradients"):
            assert (getattr(item, name) is not None) == (name in fields)
    assert len(requested) == (len(SCAN_NAMES) if {"weights", "score_gradients"} & set(wanted) else 0)


def spied(function: Callable, calls: list, *inputs: object) -> object:
    calls.append(inputs)
    return function(*inputs)


def test_a_mechanism_without_scores_has_no_score_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its weights, read off by attending to one value after another, are there all the same."""
    network = network_of("linear", "scan")
    expected = diagnosed(network, "scan")
    monkeypatch.setattr(type(network.encoder.layers[0].attention), "weights", base.Attention.weights)
    for name, item in diagnosed(network, "scan").items():
        assert item.score_gradients is None
        torch.testing.assert_close(item.weights, expected[name].weights, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("wanted", [("score_gradients",), ("weights", "norms")])
def test_the_network_is_left_as_it_was(wanted: tuple[str, ...]) -> None:
    network = network_of("linear_rms", "scan", dropout=0.5).train()
    network.decoder.eval()
    modes = {name: module.training for name, module in network.named_modules()}
    before = {name: value.clone() for name, value in network.state_dict().items()}
    kept = network.output.linear.bias
    kept.grad = torch.ones_like(kept)
    first = diagnosed(network, "scan", *wanted)
    assert {name: module.training for name, module in network.named_modules()} == modes
    assert all((parameter.grad is None) == (parameter is not kept) for parameter in network.parameters())
    assert torch.equal(kept.grad, torch.ones_like(kept))
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    again = diagnosed(network.eval(), "scan", *wanted)
    for name, item in first.items():
        for quantity in ("weights", "score_gradients"):
            single, other = getattr(item, quantity), getattr(again[name], quantity)
            assert (single is None and other is None) or torch.equal(single, other), "dropout was on"


def test_observers_are_gone_afterwards_and_also_after_an_exception() -> None:
    network = network_of("linear", "scan").train()

    def failing(network: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        kind_of(SPECS["scan"]).loss(network, batch)
        raise RuntimeError("in the objective")

    theirs: list[base.Observation] = []
    network.get_submodule(SCAN_NAMES[0]).observer = theirs.append
    diagnosed(network, "scan")
    with pytest.raises(RuntimeError, match="in the objective"):
        diagnose(network, batch_of("scan"), failing)
    assert all(network.get_submodule(name).observer is None for name in SCAN_NAMES[1:])
    assert network.training and network.encoder.training
    assert not theirs
    loss_of(network, "scan")
    assert len(theirs) == 1


def test_nobody_watching_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    network = network_of("linear", "scan")
    diagnosed(network, "scan")

    def refuse(*_: object) -> None:
        raise AssertionError("an observation was made without an observer")

    monkeypatch.setattr(base, "Observation", refuse)
    loss_of(network, "scan")
    with observed(network), pytest.raises(AssertionError, match="without an observer"):
        loss_of(network, "scan")


def test_gradients_are_had_where_they_are_switched_off() -> None:
    with torch.no_grad():
        gradients = diagnosed(network_of("vanilla", "scan"), "scan", "score_gradients")
        assert not torch.is_grad_enabled()
    assert all(item.score_gradients is not None for item in gradients.values())


def test_an_unknown_quantity_is_refused() -> None:
    message = r"wanted=weight: expected some of norms, values, weights, score_gradients; nearest: weights"
    with pytest.raises(ValueError, match=message):
        diagnosed(network_of("linear", "scan"), "scan", "norms", "weight")
