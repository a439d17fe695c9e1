"""The one place where a task and a model meet: a network from the configuration and the TaskSpec."""

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from torch import nn

from attnlab.attention.base import Attention
from attnlab.config.layers import layer_plan
from attnlab.config.schema import Backbone, LayerGroup, Model, Normalization, TaskSpec
from attnlab.nn.backbone import Stack
from attnlab.nn.block import BlockShape, Layer, ParallelAttention, make_norm
from attnlab.nn.embedding import ImageQuestionEmbedding, TokenEmbedding
from attnlab.nn.heads import EncoderDecoder, ImageQuestionClassifier, Output

Place = Literal["encoder", "decoder", "cross"]


def build_network(backbone: Backbone, model: Model, spec: TaskSpec) -> EncoderDecoder | ImageQuestionClassifier:
    """The network of this backbone, model and task; weights drawn from torch's global random state.

    Raises:
        ValueError: a task kind or modality that no network here serves.
    """
    backbone = replace(
        backbone,
        feed_forward=model.feed_forward or backbone.feed_forward,
        layer_norm=model.layer_norm or backbone.layer_norm,
        positions=model.positions or backbone.positions,
        share_layers=backbone.share_layers if model.share_layers is None else model.share_layers,
    )
    match spec.kind, spec.modality:
        case "encoder_decoder", "tokens":
            return _encoder_decoder(backbone, model, spec)
        case "classification", "image_question":
            return _image_question_classifier(backbone, model, spec)
    raise ValueError(f"no network for a task of kind {spec.kind} and modality {spec.modality}")


def _encoder_decoder(backbone: Backbone, model: Model, spec: TaskSpec) -> EncoderDecoder:
    embed = partial(
        TokenEmbedding,
        width=backbone.d_model,
        variant=backbone.embedding,
        absolute=backbone.positions == "sinusoidal",
        dropout=backbone.embedding_dropout,
    )
    source, target = embed(spec.input_vocabulary), embed(spec.output_vocabulary)
    longest = max(spec.max_input_length, spec.max_output_length)
    encoder = _stack(backbone, model, "encoder", backbone.n_layers, longest)
    decoder = _stack(backbone, model, "decoder", backbone.n_decoder_layers or backbone.n_layers, longest)
    output = Output(
        backbone.d_model,
        spec.output_vocabulary,
        tied=target if backbone.tied_output else None,
        xavier=backbone.initialization == "xavier",
    )
    return EncoderDecoder(source, target, encoder, decoder, output)


def _image_question_classifier(backbone: Backbone, model: Model, spec: TaskSpec) -> ImageQuestionClassifier:
    embedding = ImageQuestionEmbedding(
        spec.image_shape,
        spec.question_size,
        backbone.d_model,
        absolute=backbone.positions == "sinusoidal",
        dropout=backbone.embedding_dropout,
    )
    encoder = _stack(backbone, model, "encoder", backbone.n_layers, embedding.n_tokens)
    return ImageQuestionClassifier(embedding, encoder, spec.n_classes, backbone.d_model)


def _stack(
    backbone: Backbone, model: Model, place: Literal["encoder", "decoder"], n_layers: int, longest: int
) -> Stack:
    groups: list[LayerGroup] = getattr(model, place)
    shape = BlockShape(**{name: getattr(backbone, name) for name in BlockShape.__dataclass_fields__})

    def make_layer(kind: tuple[int, ...]) -> Layer:
        parts = [make_attention(groups[i].attention, place, backbone, model, longest) for i in kind]
        cross = make_attention(model.cross, "cross", backbone, model, longest) if place == "decoder" else None
        return Layer(shape, parts[0] if len(parts) == 1 else ParallelAttention(parts), cross)

    norm = make_norm(backbone.layer_norm, backbone.d_model) if backbone.final_norm else None
    plan = layer_plan([group.share for group in groups], model.pattern, n_layers)
    return Stack(plan, make_layer, backbone.share_layers, norm)


def make_attention(node: Mapping[str, Any], place: Place, backbone: Backbone, model: Model, longest: int) -> Attention:
    """The attention that a model yaml's node names, for one place of the network.

    The node's own keys win over what the backbone and the model offer (dropout, normalisation, ...); of the offers a
    mechanism gets those its constructor names.

    Args:
        longest: positions of the longest sequence of the task, over all its splits; offered as `max_length`.
    """
    module, _, name = node["_target_"].rpartition(".")
    mechanism = getattr(importlib.import_module(module), name)
    offers = {
        "bias": backbone.attention_bias,
        "dropout": backbone.attention_dropout,
        "initialization": backbone.initialization,
        "normalization": model.normalization,
        "relative_positions": backbone.positions == "relative" and place != "cross",
        "max_length": longest,
        "orthogonality": model.ortho.weight > 0 and place in model.ortho.where,
    }
    accepted = inspect.signature(mechanism).parameters
    arguments = {key: value for key, value in offers.items() if key in accepted}
    arguments |= {key: value for key, value in node.items() if key != "_target_"}
    if isinstance(arguments.get("normalization"), Mapping):
        arguments["normalization"] = Normalization(**arguments["normalization"])
    return mechanism(backbone.d_model, backbone.n_heads, **arguments)


def count_parameters(network: nn.Module) -> int:
    """Trainable numbers; a weight used in two places counts once."""
    return sum(p.numel() for p in network.parameters() if p.requires_grad)
