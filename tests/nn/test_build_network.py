"""Networks built from a configuration: what the backbone, the model and one attention's section set."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.model_cases import SPECS, backbone_of, config_of, network_of
from support.small_runs import checked
from torch import nn

from attnlab.attention.base import Attention, AttentionOptions
from attnlab.attention.linear import LinearAttention
from attnlab.config.job_config import check_config, compose_config
from attnlab.config.targets import constructor_arguments, signature_of
from attnlab.nn.network_parts import make_attention
from attnlab.nn.transformer_block import FeedForward
from attnlab.run.build_runtime import make_network
from attnlab.run.run_folder import RunError
from attnlab.tasks.kinds.base import build_network

PLUGIN = """
from typing import Unpack

import attnlab.attention.linear as linear
from attnlab.attention.base import AttentionOptions
from attnlab.attention.linear import LinearAttention


class ByAttribute(linear.LinearAttention):
    pass


class WithOptions(LinearAttention):
    def __init__(self, d_model: int, n_heads: int, *, gain: float = 2.0, **options: "Unpack[AttentionOptions]") -> None:
        super().__init__(d_model, n_heads, chunk_size=8, **options)
        self.gain = gain
"""


def attentions_of(network: nn.Module) -> list[nn.Module]:
    return [module for module in network.modules() if hasattr(module, "q_proj")]


@pytest.mark.parametrize("bias", [True, False])
def test_attention_biases_follow_the_backbone(bias: bool) -> None:
    for attention in attentions_of(network_of("linear", "scan", attention_bias=bias)):
        for projection in (attention.q_proj, attention.k_proj, attention.v_proj, attention.out_proj):
            assert (projection.bias is not None) == bias


@pytest.mark.parametrize("name", ["ByAttribute", "WithOptions"])
def test_what_the_backbone_offers_reaches_a_plugin(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "offered_attention.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("ATTNLAB_PLUGINS", "offered_attention")
    node = {"_target_": f"offered_attention.{name}"}
    backbone, model = backbone_of("linear", "scan", attention_bias=False), config_of("linear_l1").model
    attention = make_attention(node, "encoder", backbone, model, 32)
    assert attention.q_proj.bias is None and attention.chunk_size == (64 if name == "ByAttribute" else 8)
    assert attention.k_norm.kind == ("l1" if name == "ByAttribute" else "none")
    signature = signature_of(node)
    assert signature.can("supports_orthogonality")
    option_names = {"gain", *AttentionOptions.__annotations__}
    options = option_names if name == "WithOptions" else constructor_arguments(LinearAttention).keys()
    assert signature.arguments.keys() == {"d_model", "n_heads", *options}


def test_what_the_backbone_offers_reaches_the_attentions() -> None:
    network = network_of("vanilla", "scan", attention_dropout=0.25, positions="relative")
    self_attentions = [layer.attention for stack in (network.encoder, network.decoder) for layer in stack.layers]
    cross = [layer.cross for layer in network.decoder.layers]
    assert {attention.dropout for attention in self_attentions + cross} == {0.25}
    assert all(attention.positions is not None for attention in self_attentions)
    assert all(attention.positions is None for attention in cross)
    for model, kind in (("linear_l1", "l1"), ("linear_rms_ortho", "rms"), ("linear", "none")):
        assert {a.k_norm.kind for a in attentions_of(network_of(model, "scan"))} == {kind}


def test_a_models_own_choices_win_over_the_backbones() -> None:
    model = replace(config_of("linear").model, feed_forward="glu", layer_norm="rms_norm", positions="none")
    network = build_network(backbone_of("linear", "scan"), model, SPECS["scan"])
    layer = network.encoder.layers[0]
    assert layer.feed_forward.gate is not None
    assert isinstance(layer.around_attention.norm, nn.RMSNorm)
    assert network.source_embedding.learned is None


def test_a_node_wins_over_the_model() -> None:
    model = config_of("linear_l1").model
    node = model.cross | {"normalization": {"kind": "l2", "placement": "before_feature_map"}, "eps": 0.5}
    cross = network_of(replace(model, cross=node), "scan").decoder.layers[0].cross
    assert (cross.k_norm.kind, cross.norm_first, cross.eps) == ("l2", True, 0.5)


def test_an_unknown_task_kind_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no network for a task of kind encoder_decoder and modality image_question"):
        spec = replace(SPECS["scan"], modality="image_question")
        build_network(backbone_of("linear", "scan"), config_of("linear").model, spec)


def test_options_that_do_not_go_together_are_one_sentence() -> None:
    """Where only the constructor of a class knows it."""
    options = ["task=sort_of_clevr", "model=performer_relu", "+model.encoder.0.attention.detach_stabilizer=true"]
    raw = compose_config(options)
    assert check_config(raw) == []
    text = "model performer_relu cannot be built: detach_stabilizer=true is for kernel=softmax"
    with pytest.raises(RunError, match=text):
        make_network(checked(raw), SPECS["sort_of_clevr"])


def test_normal_weights_are_drawn_as_in_bert() -> None:
    """All linear maps but a tied one, the head's too (fairseq: init_bert_params)."""
    backbone = backbone_of("transnormer_t1", "wikitext103_masked", initialization="normal", d_model=64)
    network = build_network(backbone, config_of("transnormer_t1").model, SPECS["wikitext103_masked"])
    maps = {name: module for name, module in network.named_modules() if isinstance(module, nn.Linear)}
    assert "dense" in maps and any("q_proj" in name for name in maps) and any("gate" in name for name in maps)
    for name, module in maps.items():
        assert module.weight.std().item() == pytest.approx(0.02, rel=0.1), name
        assert module.bias is None or not module.bias.any(), name


def test_maps_to_the_residual_stream_are_drawn_smaller_as_in_gpt_2() -> None:
    """0.02 / sqrt(2 layers), as in zoology: the output map of attention and the last of the feed-forward part."""
    backbone = backbone_of("vanilla", "flip_flop", initialization="normal_residual", d_model=64, n_layers=8)
    network = build_network(backbone, config_of("vanilla").model, SPECS["flip_flop"])
    maps = {name: module for name, module in network.named_modules() if isinstance(module, nn.Linear)}
    smaller = {name for name in maps if name.endswith((".out_proj", ".outer"))}
    assert len(smaller) == 16 and len(maps) > 48
    for name, module in maps.items():
        assert module.weight.std().item() == pytest.approx(0.005 if name in smaller else 0.02, rel=0.1), name
        assert module.bias is None or not module.bias.any(), name


@pytest.mark.parametrize("task", ["mqar", "mad", "wikitext2"])
@pytest.mark.parametrize(
    ("model", "kind", "eps"),
    [
        ("retention", "none", 0.0),
        ("gated_linear", "none", 0.0),
        ("scalar_gated_linear", "none", 0.0),
        ("delta_rule", "l2", 1e-6),
        ("negative_delta_rule", "l2", 1e-6),
        ("gated_delta_rule", "l2", 1e-6),
        ("channel_gated_delta_rule", "l2", 1e-6),
        ("based", "none", 0.0),
        ("forgetting", "none", 0.0),
    ],
)
def test_recurrences_have_the_projections_and_the_eps_of_flash_linear_attention(
    model: str, kind: str, eps: float, task: str
) -> None:
    """At bc3b101: no bias in q_proj, k_proj, v_proj, o_proj; l2norm with eps=1e-6. The tasks have biases otherwise."""
    config = checked(compose_config([f"task={task}", f"model={model}"]))
    assert config.backbone.attention_bias
    network = build_network(config.backbone, config.model, SPECS["flip_flop"])
    attentions = [module for module in network.modules() if isinstance(module, Attention)]
    maps = [getattr(attention, f"{part}_proj") for attention in attentions for part in ("q", "k", "v", "out")]
    assert maps and all(each.bias is None for each in maps)
    assert {(attention.k_norm.kind, attention.k_norm.eps) for attention in attentions} == {(kind, eps)}


def test_recall_starts_with_the_weights_of_zoology() -> None:
    assert compose_config(["task=mqar"])["backbone"]["initialization"] == "normal_residual"


def test_dropout_between_the_feed_forward_maps_has_a_rate_of_its_own() -> None:
    rates = []
    for between in (None, 0.0):
        network = network_of("linear", "scan", dropout=0.25, feed_forward_dropout=between)
        part = next(module for module in network.modules() if isinstance(module, FeedForward))
        rates.append((part.inner_dropout.p, part.dropout.p))
    assert rates == [(0.25, 0.25), (0.0, 0.25)]
