"""Networks of one stack: classifiers of sequences and of pairs, causal and masked language models."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from support.model_cases import SPECS, backbone_of, config_of, distinct_for, network_of, one_of_each_mechanism
from support.slow_cases import slow_except
from support.tensors import assert_same, gradients, masks
from torch import Tensor, nn

from attnlab.attention.base import TooLong
from attnlab.data.batch import LanguageBatch
from attnlab.kernels.dropout import Dropout
from attnlab.kernels.linear_map import LinearMap
from attnlab.nn.classifier import ClassHead, SequenceEncoder
from attnlab.nn.output_head import Output
from attnlab.tasks.kinds.base import build_network, kind_of

LENGTHS = [5, 2, 3]
TASKS = ("lra_listops", "lra_retrieval", "flip_flop", "wikitext103_masked", "mad")
FAST = [
    *((task, model) for task in ("lra_listops", "flip_flop") for model in one_of_each_mechanism(task)),
    *(
        (task, model)
        for task in ("lra_retrieval", "wikitext103_masked", "mad")
        for model in one_of_each_mechanism(task)[::4]
    ),
]
"""the laws hold every network of two other kinds, and every attention"""
PAIRS = slow_except(dict.fromkeys((*FAST, *((task, model) for task in TASKS for model in distinct_for(task)))), FAST)


def tokens(*shape: int) -> Tensor:
    return torch.randint(7, shape)


def run(network: nn.Module, task: str, x: Tensor, mask: Tensor, other: Tensor, other_mask: Tensor) -> tuple:
    """Output at real positions (a classifier's logits), and penalty."""
    if task == "lra_retrieval":
        return network(x, mask, other, other_mask)
    out, penalty = network(x, mask)
    return (out, penalty) if task == "lra_listops" else (out[mask], penalty)


@pytest.mark.parametrize(("task", "model"), PAIRS)
def test_padding_changes_nothing(task: str, model: str) -> None:
    """Law 1 for whole networks: outputs and all gradients, with any token in the padding."""
    network, x, other = network_of(model, task), tokens(3, 5), tokens(3, 4)
    mask, other_mask = masks(LENGTHS, 5), masks([1, 4, 2], 4)
    out, penalty = run(network, task, x, mask, other, other_mask)
    weights = torch.randn_like(out)
    expected = gradients((out * weights).sum() + penalty, network) | {"out": out}
    for extra, content in ((1, 0), (40, 6)):
        longer, more = (
            F.pad(torch.where(real, side, content), (0, extra), value=content)
            for side, real in ((x, mask), (other, other_mask))
        )
        widened = masks(LENGTHS, 5 + extra), masks([1, 4, 2], 4 + extra)
        out, penalty = run(network, task, longer, widened[0], more, widened[1])
        actual = gradients((out * weights).sum() + penalty, network)
        assert_same(actual | {"out": out}, expected, 1e-10)


@pytest.mark.parametrize("model", distinct_for("flip_flop"))
def test_steps_equal_the_language_model(model: str) -> None:
    """And so nothing that comes later changes what came before."""
    network, x = network_of(model, "flip_flop"), tokens(3, 6)
    expected = network.output(network(x, masks([6, 6, 6], 6))[0])
    changed = torch.cat((x[:, :4], tokens(3, 2)), dim=1)
    again = network.output(network(changed, masks([6, 6, 6], 6))[0])
    torch.testing.assert_close(again[:, :4], expected[:, :4], rtol=1e-10, atol=1e-10)
    attentions = [layer.attention for layer in network.decoder.layers]
    if not all(getattr(attention, "supports_step", True) for attention in attentions):
        return
    state, rows = network.start(3), torch.arange(3)
    for position in range(6):
        if position == 3:
            rows = torch.tensor([2, 0])
            state = state.select(rows)
        logits, state = network.step(x[rows, position], state)
        torch.testing.assert_close(logits, expected[rows, position], rtol=1e-10, atol=1e-10)
    assert network.state_size(6) > 0


@pytest.mark.parametrize("model", distinct_for("wikitext103_masked"))
def test_masked_language_models_see_both_sides(model: str) -> None:
    network, x = network_of(model, "wikitext103_masked"), tokens(1, 5)
    mask = masks([5], 5)
    first, last = (network(torch.cat((x[:, :-1], x[:, -1:] * 0 + end), dim=1), mask)[0] for end in (3, 4))
    assert (first[0, 0] - last[0, 0]).abs().max() > 1e-9


@pytest.mark.parametrize("pooling", ["mean", "first", "class_token"])
def test_pooling_reads_the_right_positions(pooling: str) -> None:
    network = network_of("linear_l2", "lra_listops", pooling=pooling)
    encoder = network.sequence
    assert isinstance(encoder, SequenceEncoder)
    seen = []
    encoder.encoder.register_forward_hook(lambda module, inputs, result: seen.append((inputs[1], result[0])))
    x, mask = tokens(3, 5), masks(LENGTHS, 5)
    pooled, _ = encoder(x, mask)
    ((real, layers),) = seen
    assert real.shape[1] == (6 if pooling == "class_token" else 5)
    assert layers.shape[1] == (5 if pooling == "mean" else 1), "the last feed-forward part computes what is read"
    assert real.sum(1).tolist() == [length + (pooling == "class_token") for length in LENGTHS]
    wanted = [row[: len(row) if pooling != "mean" else int(n)] for row, n in zip(layers, LENGTHS, strict=True)]
    expected = torch.stack([row.mean(0) if pooling == "mean" else row[0] for row in wanted])
    torch.testing.assert_close(pooled, expected, rtol=1e-12, atol=1e-12)


def test_heads_are_as_deep_as_asked() -> None:
    network = network_of("linear", "lra_retrieval", d_classifier=None)
    assert [type(part) for part in network.head] == [Dropout, LinearMap]
    assert network.head[-1].in_features == 4 * 8
    assert [type(part) for part in ClassHead(8, 5, 3, 0.0)] == [LinearMap, nn.ReLU, Dropout, LinearMap]


def test_a_pair_is_both_vectors_their_product_and_difference() -> None:
    network, inputs = network_of("vanilla", "lra_retrieval"), (tokens(3, 5), masks(LENGTHS, 5))
    a, _ = network.sequence(*inputs)
    other = tokens(3, 4), masks([4, 1, 2], 4)
    b, _ = network.sequence(*other)
    logits, _ = network(*inputs, *other)
    expected = network.head(torch.cat((a, b, a * b, a - b), dim=1))
    torch.testing.assert_close(logits, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("task", ["flip_flop", "wikitext103_masked"])
@pytest.mark.parametrize("tied", [True, False])
def test_outputs_are_tied_where_asked(task: str, tied: bool) -> None:
    network = network_of("linear", task, tied_output=tied)
    assert isinstance(network.output, Output)
    assert (network.output.linear.weight is network.embedding.table.weight) == tied


@pytest.mark.parametrize("task", TASKS)
def test_the_orthogonality_loss_is_that_of_the_only_stack(task: str) -> None:
    """linear_ortho names the encoder; in a network that has a decoder alone that is its decoder."""
    network = network_of("linear_ortho", task)
    _, penalty = run(network, task, tokens(2, 5), masks([5, 4], 5), tokens(2, 5), masks([5, 4], 5))
    assert penalty > 0
    silent = build_network(backbone_of("linear", task), config_of("linear", task).model, SPECS[task]).double()
    assert run(silent, task, tokens(2, 5), masks([5, 4], 5), tokens(2, 5), masks([5, 4], 5))[1] == 0


def test_learned_positions_end_with_a_sentence() -> None:
    network = network_of("linear", "lra_listops", positions="learned")
    network(tokens(1, 100), masks([100], 100))
    with pytest.raises(TooLong, match=r"101 positions, and this network learned 100 .*sinusoidal"):
        network(tokens(1, 101), masks([101], 101))


def test_no_network_for_what_there_is_none() -> None:
    spec = replace(SPECS["flip_flop"], modality="token_pairs")
    with pytest.raises(ValueError, match="no network for a task of kind language_model and modality token_pairs"):
        build_network(backbone_of("linear", "flip_flop"), config_of("linear", "flip_flop").model, spec)


def test_hidden_tokens_are_drawn_as_published() -> None:
    spec = replace(SPECS["wikitext103_masked"], mask_share=0.15, input_vocabulary=1000)
    torch.manual_seed(0)
    words, size = torch.randint(4, 1000, (200, 500)), 200 * 500
    candidates = torch.ones_like(words, dtype=torch.bool)
    candidates[:, ::5] = False
    batch = LanguageBatch(
        index=torch.arange(200),
        inputs=words,
        lengths=torch.full((200,), 500),
        targets=words,
        scored=candidates,
        words=torch.zeros(200),
    )
    result = kind_of(spec).training_batch(batch)
    assert torch.equal(result.targets, words) and not (result.scored & ~candidates).any()
    assert result.scored.sum().item() / (0.8 * size) == pytest.approx(0.15, abs=0.01)
    assert torch.equal(result.inputs[~result.scored], words[~result.scored])
    read, right = result.inputs[result.scored], words[result.scored]
    assert (read == spec.mask_id).float().mean().item() == pytest.approx(0.8, abs=0.02)
    assert (read == right).float().mean().item() == pytest.approx(0.1, abs=0.02)
    assert read[read != spec.mask_id].min() >= spec.n_special
    assert not torch.equal(kind_of(spec).training_batch(batch).scored, result.scored)
