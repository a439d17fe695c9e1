"""The one place where a task and a model meet: a network from the configuration and the TaskSpec."""

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from torch import nn

from attnlab.attention.base import Attention
from attnlab.config.layer_plan import covered_slots, layer_plan
from attnlab.config.plugins import load_class
from attnlab.config.schema import Backbone, LayerGroup, Model, Normalization
from attnlab.data.task_spec import TaskSpec
from attnlab.nn.backbone import LayerStack
from attnlab.nn.classifier import (
    ClassHead,
    ImageQuestionClassifier,
    PairClassifier,
    SequenceClassifier,
    SequenceEncoder,
)
from attnlab.nn.embedding import ImageQuestionEmbedding, TokenEmbedding
from attnlab.nn.encoder_decoder import EncoderDecoder
from attnlab.nn.language_model import LanguageModel, MaskedLanguageModel
from attnlab.nn.output_head import Output
from attnlab.nn.transformer_block import BlockShape, Layer, ParallelAttention, make_norm

Place = Literal["encoder", "decoder", "cross"]


def build_network(backbone: Backbone, model: Model, spec: TaskSpec) -> nn.Module:
    """The network of this backbone, model and task; weights drawn from torch's global random state.

    Raises:
        ValueError: a task kind and modality that no network here serves.
    """
    backbone = replace(
        backbone,
        feed_forward=model.feed_forward or backbone.feed_forward,
        layer_norm=model.layer_norm or backbone.layer_norm,
        positions=model.positions or backbone.positions,
        share_layers=backbone.share_layers if model.share_layers is None else model.share_layers,
        embedding_dropout=backbone.embedding_dropout if model.embedding_dropout is None else model.embedding_dropout,
    )
    match spec.kind, spec.modality:
        case "encoder_decoder", "tokens":
            return _encoder_decoder(backbone, model, spec)
        case "classification", "image_question":
            return _image_question_classifier(backbone, model, spec)
        case "classification", "tokens" | "token_pairs":
            return _sequence_classifier(backbone, model, spec)
        case "language_model", "tokens":
            return _language_model(backbone, model, spec)
        case "masked_language_model", "tokens":
            return _masked_language_model(backbone, model, spec)
    raise ValueError(f"no network for a task of kind {spec.kind} and modality {spec.modality}")


def _encoder_decoder(backbone: Backbone, model: Model, spec: TaskSpec) -> EncoderDecoder:
    longest = max(spec.max_input_length, spec.max_output_length)
    source = _embedding(backbone, spec.input_vocabulary, longest)
    target = _embedding(backbone, spec.output_vocabulary, longest)
    encoder = _stack(backbone, model, "encoder", backbone.n_layers, longest)
    decoder = _stack(backbone, model, "decoder", backbone.n_decoder_layers or backbone.n_layers, longest, cross=True)
    return EncoderDecoder(source, target, encoder, decoder, _output(backbone, target, spec))


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


def _sequence_classifier(backbone: Backbone, model: Model, spec: TaskSpec) -> SequenceClassifier | PairClassifier:
    embedding = _embedding(backbone, spec.input_vocabulary, spec.max_input_length)
    longest = spec.max_input_length + (backbone.pooling == "class_token")
    stack = _stack(backbone, model, "encoder", backbone.n_layers, longest)
    encoder = SequenceEncoder(embedding, stack, backbone.d_model, backbone.pooling)
    pairs = spec.modality == "token_pairs"
    width = backbone.d_model * (4 if pairs else 1)
    head = ClassHead(width, backbone.d_classifier, spec.n_classes, backbone.dropout)
    return (PairClassifier if pairs else SequenceClassifier)(encoder, head)


def _language_model(backbone: Backbone, model: Model, spec: TaskSpec) -> LanguageModel:
    embedding = _embedding(backbone, spec.input_vocabulary, spec.max_input_length)
    model = replace(model, ortho=replace(model.ortho, where=covered_slots(model.ortho.where, ["decoder"])))
    decoder = _stack(backbone, model, "decoder", backbone.n_layers, spec.max_input_length)
    return LanguageModel(embedding, decoder, _output(backbone, embedding, spec))


def _masked_language_model(backbone: Backbone, model: Model, spec: TaskSpec) -> MaskedLanguageModel:
    embedding = _embedding(backbone, spec.input_vocabulary, spec.max_input_length)
    encoder = _stack(backbone, model, "encoder", backbone.n_layers, spec.max_input_length)
    norm = make_norm(backbone.layer_norm, backbone.d_model)
    output = _output(backbone, embedding, spec)
    return MaskedLanguageModel(embedding, encoder, output, norm, backbone.d_model)


def _embedding(backbone: Backbone, vocabulary: int, longest: int) -> TokenEmbedding:
    return TokenEmbedding(
        vocabulary,
        backbone.d_model,
        variant=backbone.embedding,
        positions=backbone.positions,
        longest=longest,
        dropout=backbone.embedding_dropout,
    )


def _output(backbone: Backbone, embedding: TokenEmbedding, spec: TaskSpec) -> Output:
    tied, xavier = embedding if backbone.tied_output else None, backbone.initialization == "xavier"
    return Output(backbone.d_model, embedding.table.num_embeddings, tied, xavier, spec.never_targets)


def _stack(
    backbone: Backbone,
    model: Model,
    place: Literal["encoder", "decoder"],
    n_layers: int,
    longest: int,
    cross: bool = False,
) -> LayerStack:
    groups: list[LayerGroup] = getattr(model, place)
    shape = BlockShape(**{name: getattr(backbone, name) for name in BlockShape.__dataclass_fields__})

    def make_layer(kind: tuple[int, ...]) -> Layer:
        parts = [make_attention(groups[i].attention, place, backbone, model, longest) for i in kind]
        to_memory = make_attention(model.cross, "cross", backbone, model, longest) if cross else None
        return Layer(shape, parts[0] if len(parts) == 1 else ParallelAttention(parts), to_memory)

    norm = make_norm(backbone.layer_norm, backbone.d_model) if backbone.final_norm else None
    plan = layer_plan([group.share for group in groups], model.pattern, n_layers)
    return LayerStack(plan, make_layer, backbone.share_layers, norm)


def make_attention(node: Mapping[str, Any], place: Place, backbone: Backbone, model: Model, longest: int) -> Attention:
    """The attention that a model yaml's node names, for one place of the network.

    The node's own keys win over what the backbone and the model offer (dropout, normalisation, ...); of the offers a
    mechanism gets those its constructor names.

    Args:
        longest: positions of the longest sequence of the task, over all its splits; offered as `max_length`.

    Raises:
        TargetError: the class may not be named (`config.plugins`), or is no attention.
    """
    mechanism = load_class(node["_target_"], Attention)
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
    attention = mechanism(backbone.d_model, backbone.n_heads, **arguments)
    attention.ortho_form = model.ortho.form
    return attention


def count_parameters(network: nn.Module) -> int:
    """Trainable numbers; a weight used in two places counts once."""
    return sum(p.numel() for p in network.parameters() if p.requires_grad)
