"""Softmax variants of Csordas et al. 2021 (`relative`, `universal`, `relative_universal`) and layer sharing."""

import pytest
import torch
from support.model_cases import MODELS, SPECS, TASKS, backbone_of, config_of, network_of
from support.small_runs import checked
from support.tensors import masks, shaken
from torch import Tensor, nn

from attnlab.attention.core.score_position import sinusoid
from attnlab.attention.positions.relative import RelativeScores
from attnlab.attention.positions.sinusoidal import Sinusoids
from attnlab.attention.softmax import SoftmaxAttention
from attnlab.config.conf_files import merged_yaml
from attnlab.config.job_config import compose_config
from attnlab.nn.network_parts import count_parameters
from attnlab.tasks.kinds.base import build_network

UNIVERSAL, RELATIVE = ("universal", "relative_universal"), ("relative", "relative_universal")


def attentions(network: nn.Module) -> dict[str, SoftmaxAttention]:
    return {name: module for name, module in network.named_modules() if isinstance(module, SoftmaxAttention)}


@pytest.mark.parametrize("model", UNIVERSAL)
def test_universal_has_the_parameters_of_one_layer_on_each_side(model: str) -> None:
    network = network_of(model, "scan", n_layers=4, n_decoder_layers=3)
    assert (len(network.encoder.layers), len(network.decoder.layers)) == (1, 1)
    assert (network.encoder.applications, network.decoder.applications) == ([0] * 4, [0] * 3)
    unshared = {"universal": "vanilla", "relative_universal": "relative"}[model]
    assert count_parameters(network) == count_parameters(network_of(unshared, "scan", n_layers=1))
    assert count_parameters(network) < count_parameters(network_of(unshared, "scan", n_layers=2))


@pytest.mark.parametrize("model", UNIVERSAL)
def test_universal_applies_its_layer_again_and_again(model: str) -> None:
    network = network_of(model, "scan", n_layers=4, n_decoder_layers=3)
    x, memory = torch.randn(2, 5, 8, dtype=torch.float64), torch.randn(2, 4, 8, dtype=torch.float64)
    mask, memory_mask = masks([5, 3], 5), masks([1, 4], 4)
    expected = x
    for _ in range(4):
        expected, _ = network.encoder.layers[0](expected, mask, False)
    torch.testing.assert_close(network.encoder(x, mask, False)[0], expected, rtol=1e-12, atol=1e-12)
    expected = x
    for _ in range(3):
        expected, _ = network.decoder.layers[0](expected, mask, True, memory, memory_mask)
    actual, _ = network.decoder(x, mask, True, memory, memory_mask)
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("model", RELATIVE)
def test_relative_has_its_positions_in_the_scores_alone(model: str, task: str) -> None:
    """In self-attention; distances between two sequences mean nothing."""
    network = network_of(model, task)
    result = attentions(network)
    assert {name for name, attention in result.items() if attention.positions is None} == {
        name for name in result if name.endswith("cross")
    }
    embeddings = [module for module in network.modules() if "Embedding" in type(module).__name__]
    assert embeddings and not any(isinstance(module, Sinusoids) for module in network.modules())


@pytest.mark.parametrize("model", RELATIVE)
def test_relative_embeds_a_token_alike_everywhere(model: str) -> None:
    network = network_of(model, "scan")
    for embedding in (network.source_embedding, network.target_embedding):
        rows = embedding(torch.full((1, 5), 3))[0]
        assert torch.equal(rows, rows[:1].expand(5, -1))


def logits(network: nn.Module, images: Tensor, questions: Tensor) -> Tensor:
    return network(images, questions)[0]


@pytest.mark.parametrize("model", RELATIVE)
def test_relative_tells_patches_apart(model: str) -> None:
    """Without any positions the order of the patches makes no difference; relative ones see it."""
    images, questions = torch.randint(256, (2, 30, 30, 3)).byte(), torch.randint(2, (2, 4)).byte()
    swapped = images.roll(15, dims=2)
    blind, seeing = network_of("vanilla", "sort_of_clevr", positions="none"), network_of(model, "sort_of_clevr")
    torch.testing.assert_close(logits(blind, swapped, questions), logits(blind, images, questions), rtol=1e-9, atol=0)
    assert (logits(seeing, swapped, questions) - logits(seeing, images, questions)).abs().min() > 1e-6


def test_any_model_can_share_its_layers_and_drop_out_embeddings() -> None:
    """Hydra sets a key without a plus where it is there: both are in the composition of every model."""
    words = ["model.share_layers=true", "model.embedding_dropout=0.25"]
    model = compose_config(["task=scan", "model=linear", *words])["model"]
    assert (model["share_layers"], model["embedding_dropout"]) == (True, 0.25)
    for name in MODELS:
        assert {"share_layers", "embedding_dropout"} <= set(merged_yaml("model", name)), name


DRAWN = {"torch": (3 * 128) ** -0.5, "xavier": 128**-0.5}
"""standard deviation of a map of 128 x 128"""
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")


def published(model: str) -> nn.Module:
    """The network of a model at the task's own sizes, with nothing moved off its start."""
    config = checked(compose_config(["task=scan", f"model={model}"]))
    torch.manual_seed(0)
    return build_network(config.backbone, config.model, SPECS["scan"])


@pytest.mark.parametrize("model", ["vanilla", "universal", *RELATIVE])
def test_every_projection_starts_as_in_the_published_code(model: str) -> None:
    """Csordas et al. never call the initialiser of relative self-attention: PyTorch's defaults; all else is xavier."""
    network, seen = published(model), 0
    for name, attention in attentions(network).items():
        relative = model in RELATIVE and not name.endswith("cross")
        maps = [getattr(attention, projection) for projection in PROJECTIONS]
        maps += [attention.positions.position_proj] if relative else []
        for linear in maps:
            expected = DRAWN["torch" if relative else "xavier"]
            assert linear.weight.std().item() == pytest.approx(expected, rel=0.02), name
            assert linear.weight.abs().max().item() == pytest.approx(expected * 3**0.5, rel=0.01), name
            assert linear.bias is None
            seen += 1
        if relative:
            assert not attention.positions.content_bias.any() and not attention.positions.position_bias.any()
    layers = 2 if model in UNIVERSAL else 6
    assert seen == (4 + (model in RELATIVE)) * layers + 4 * layers // 2
    for layer in (*network.encoder.layers, *network.decoder.layers):
        widths = 6 / (128 + 256)
        assert layer.feed_forward.inner.weight.std().item() == pytest.approx((2 * widths / 3) ** 0.5, rel=0.02)
        assert layer.feed_forward.outer.weight.std().item() == pytest.approx((widths / 3) ** 0.5, rel=0.02)


@pytest.mark.parametrize("model", ["vanilla", "universal", *RELATIVE])
def test_relative_variants_have_no_dropout_of_embeddings(model: str) -> None:
    """And all the other dropout of the task."""
    network = published(model)
    for embedding in (network.source_embedding, network.target_embedding):
        assert embedding.dropout.p == (0.0 if model in RELATIVE else 0.1)
    for layer in (*network.encoder.layers, *network.decoder.layers):
        assert layer.attention.dropout == layer.feed_forward.dropout.p == layer.around_attention.dropout.p == 0.1


def test_the_backbone_decides_on_dropout_of_embeddings_where_the_model_does_not() -> None:
    for words, expected in (
        (["model=vanilla", "backbone.embedding_dropout=0.3"], 0.3),
        (["model=vanilla", "backbone.embedding_dropout=0.3", "model.embedding_dropout=0"], 0.0),
        (["model=relative", "model.embedding_dropout=0.2"], 0.2),
        (["model=relative", "model.embedding_dropout=null"], 0.1),
    ):
        config = checked(compose_config(["task=scan", *words]))
        network = build_network(config.backbone, config.model, SPECS["scan"])
        assert network.source_embedding.dropout.p == network.target_embedding.dropout.p == expected


def test_distances_are_those_of_the_published_code_with_the_sine_columns_negated() -> None:
    """A loop over their table, in which row p is the sinusoid of p - (longest - 1), and key j of query i has j - i."""
    attention, longest = shaken(RelativeScores(8, 2)).double(), 6
    theirs = attention.position_proj.weight.detach().clone()
    theirs[:, 0::2] *= -1
    table = sinusoid(torch.arange(1 - longest, longest).double(), 8)
    q = torch.randn(1, 2, longest, 4, dtype=torch.float64)
    actual = attention.added(q, longest)
    for head in range(2):
        for i in range(longest):
            for j in range(longest):
                row = (theirs @ table[longest - 1 + j - i]).unflatten(0, (2, 4))[head]
                expected = (q[0, head, i] + attention.position_bias[head, 0]) @ row / 2
                torch.testing.assert_close(actual[0, head, i, j], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("model", ["vanilla", "linear_l2_ortho"])
def test_the_model_decides_over_the_backbone(model: str) -> None:
    assert config_of(model).model.share_layers is None
    for task, default in (("scan", False), ("sort_of_clevr", True)):
        for value, shared in (("null", default), ("true", True), ("false", False)):
            config = checked(compose_config([f"task={task}", f"model={model}", f"model.share_layers={value}"]))
            network = build_network(backbone_of(model, task, n_layers=3), config.model, SPECS[task])
            assert len(network.encoder.layers) == (1 if shared else 3)
