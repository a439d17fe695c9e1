"""Encoder-decoder networks: incremental decoding equals teacher forcing for every backbone and layer pattern."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from support.incremental_decoding import check_steps, two_kinds
from support.model_cases import config_of, decoder_only_networks, distinct_for, every_network, models_for, network_of
from support.tensors import masks
from torch import nn

from attnlab.nn.network_parts import count_parameters
from attnlab.nn.transformer_block import ParallelAttention

EMBEDDINGS = ("noscale", "upscale_tokens", "downscale_positions", "xavier")
BACKBONES = (
    {"share_layers": True, "n_layers": 3},
    {"norm_placement": "pre", "final_norm": True},
    {"layer_norm": "rms_norm", "feed_forward": "glu"},
    {"feed_forward": "gelu", "n_decoder_layers": 1, "tied_output": False},
    {"attention_bias": True, "initialization": "torch"},
)


@every_network()
def test_steps_equal_teacher_forcing(model: str, positions: str) -> None:
    check_steps(network_of(model, "scan", positions=positions))


@decoder_only_networks()
def test_steps_of_a_decoder_only_network_equal_teacher_forcing(network: Callable[[], nn.Module]) -> None:
    """With inputs of different lengths in a batch."""
    check_steps(network())


@pytest.mark.parametrize("embedding", EMBEDDINGS)
@pytest.mark.parametrize("model", ["linear_l2", "vanilla"])
def test_steps_equal_teacher_forcing_with_every_embedding(model: str, embedding: str) -> None:
    check_steps(network_of(model, "scan", embedding=embedding))


@pytest.mark.parametrize("changes", BACKBONES)
@pytest.mark.parametrize("model", ["linear_rms", "vanilla"])
def test_steps_equal_teacher_forcing_with_every_backbone(model: str, changes: dict[str, Any]) -> None:
    check_steps(network_of(model, "scan", **changes))


@pytest.mark.parametrize("share_layers", [False, True])
@pytest.mark.parametrize("pattern", ["sequential", "alternating", "parallel"])
def test_steps_equal_teacher_forcing_with_two_kinds_of_attention(pattern: str, share_layers: bool) -> None:
    network = network_of(two_kinds(pattern), "scan", n_layers=4, share_layers=share_layers)
    check_steps(network)
    kinds = [type(network.encoder.layers[i].attention).__name__ for i in network.encoder.applications]
    linear, softmax = "LinearAttention", "SoftmaxAttention"
    expected = {
        "sequential": [linear, linear, softmax, softmax],
        "alternating": [linear, softmax, linear, softmax],
        "parallel": [ParallelAttention.__name__] * 4,
    }
    assert kinds == expected[pattern]
    assert len(network.encoder.layers) == (4 if not share_layers else 1 if pattern == "parallel" else 2)


@pytest.mark.parametrize("both", [True, False])
def test_parallel_attentions_are_summed(both: bool) -> None:
    """Softmax attention can have the orthogonality loss too; one that has none does not dilute the other's."""
    model = two_kinds("parallel")
    model.encoder[1].attention = model.encoder[1].attention | {"orthogonality": both}
    attention = network_of(model, "scan", n_layers=1).encoder.layers[0].attention
    x, mask = torch.randn(2, 4, 8, dtype=torch.float64), masks([4, 2], 4)
    out, penalty = attention(x, None, mask, False)
    alone = [item(x, None, mask, False) for item in attention.attentions]
    torch.testing.assert_close(out, alone[0][0] + alone[1][0], rtol=1e-12, atol=1e-12)
    expected = (alone[0][1] + alone[1][1]) / 2 if both else alone[0][1]
    torch.testing.assert_close(penalty, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("where", [[], ["encoder"], ["encoder", "decoder"], ["encoder", "decoder", "cross"]])
def test_the_penalty_is_the_mean_over_the_attentions_it_covers(where: list[str]) -> None:
    model = config_of("linear_ortho").model
    network = network_of(replace(model, ortho=replace(model.ortho, where=where)), "scan", n_layers=3)
    seen = []
    for attention in [*(layer.attention for stack in (network.encoder, network.decoder) for layer in stack.layers)]:
        attention.register_forward_hook(lambda module, _, result: seen.append((module, result[1])))
    for layer in network.decoder.layers:
        layer.cross.register_forward_hook(lambda module, _, result: seen.append((module, result[1])))
    inputs = torch.randint(7, (3, 4)), masks([4, 2, 1], 4), torch.randint(6, (3, 5)), masks([5, 1, 3], 5)
    _, penalty = network(*inputs)
    counted = [value for module, value in seen if module.orthogonality]
    assert len(counted) == 3 * len(where)
    expected = sum(counted) / len(counted) if counted else torch.zeros(())
    torch.testing.assert_close(penalty, torch.as_tensor(expected).double(), rtol=1e-12, atol=0)
    assert (penalty > 0) == bool(where)


def test_shared_layers_are_one_layer() -> None:
    shared = network_of("linear_l2", "scan", share_layers=True, n_layers=3)
    single = network_of("linear_l2", "scan", n_layers=1)
    assert count_parameters(shared) == count_parameters(single)
    assert shared.encoder.applications == [0, 0, 0]
    x = torch.randn(2, 4, 8, dtype=torch.float64)
    expected = x
    for _ in range(3):
        expected, _ = shared.encoder.layers[0](expected, None, False)
    torch.testing.assert_close(shared.encoder(x, None, False)[0], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("model", distinct_for("scan"))
def test_a_network_says_how_large_its_state_is(model: str) -> None:
    network = network_of(model, "scan", n_layers=3)
    applied = [network.decoder.layers[index] for index in network.decoder.applications]
    assert network.state_size(5) == sum(layer.attention.state_size(5) for layer in applied)
    if model in models_for("sort_of_clevr"):
        assert network_of(model, "sort_of_clevr").state_size(5) == 0
