"""The parts of the network of a task and a model, from the configuration and the TaskSpec."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import nn

from attnlab.attention.base import Attention
from attnlab.attention.positions.base import Positions
from attnlab.config.classes.words import positions_path
from attnlab.config.layer_plan import covered_slots, layer_plan
from attnlab.config.schema import Backbone, LayerGroup, Model, Normalization
from attnlab.config.targets import constructor_arguments, load_class
from attnlab.data.task_spec import TaskSpec
from attnlab.nn.embedding import TokenEmbedding
from attnlab.nn.layer_stack import LayerStack
from attnlab.nn.output_head import Output
from attnlab.nn.transformer_block import Layer, ParallelAttention, make_norm

Slot = Literal["encoder", "decoder", "cross"]
"""where an attention sits: self-attention of the encoder or decoder, or cross-attention of the decoder"""


@dataclass(frozen=True)
class NetworkParts:
    """Maker of the parts of a network: embeddings, stacks of layers, outputs."""

    backbone: Backbone
    model: Model
    spec: TaskSpec

    @property
    def positions(self) -> Positions:
        """The positional encoding of the backbone."""
        return positions_named(self.backbone.positions)

    def embedding(self, vocabulary: int, longest: int) -> TokenEmbedding:
        """Token embeddings for sequences of up to `longest` tokens."""
        backbone = self.backbone
        return TokenEmbedding(
            vocabulary, backbone.d_model, backbone.embedding, self.positions, longest, backbone.embedding_dropout
        )

    def output(self, embedding: TokenEmbedding | None = None, first: int = 0) -> Output:
        """Logits over the tokens of `embedding`, which shares its weights where the backbone says so; without one over
        the output vocabulary.

        Args:
            first: id of the first output token in the embedding; ids before it are never a target.
        """
        tied = embedding if self.backbone.tied_output else None
        xavier = self.backbone.initialization == "xavier"
        vocabulary = self.spec.output_vocabulary if embedding is None else embedding.table.num_embeddings
        never = [*range(first), *(first + token for token in self.spec.never_targets)]
        return Output(self.backbone.d_model, vocabulary, tied, xavier, never)

    def stack(self, slot: Literal["encoder", "decoder"], longest: int, cross: bool = False) -> LayerStack:
        """Layers with the attentions that the model names for this slot; `cross` adds cross-attention to each."""
        backbone, model = self.backbone, self.model
        groups: list[LayerGroup] = getattr(model, slot)
        # for all layers, which may share what positions learn
        trained, positions = self.train_length(longest), self.positions
        to_cross = model.cross if cross else None
        if cross and to_cross is None:
            raise ValueError(f"model {model.name} has no cross-attention (model.cross is null)")

        def make_layer(kind: tuple[int, ...]) -> Layer:
            nodes = [groups[i].attention for i in kind]
            parts = [make_attention(node, slot, backbone, model, longest, trained, positions) for node in nodes]
            to_memory = make_attention(to_cross, "cross", backbone, model, longest, trained) if to_cross else None
            return Layer(backbone, parts[0] if len(parts) == 1 else ParallelAttention(parts), to_memory)

        norm = make_norm(backbone.layer_norm, backbone.d_model) if backbone.final_norm else None
        n_layers = (backbone.n_decoder_layers if cross else None) or backbone.n_layers
        plan = layer_plan([group.share for group in groups], model.pattern, n_layers)
        return LayerStack(plan, make_layer, backbone.share_layers, norm)

    def lone_decoder(self, longest: int) -> LayerStack:
        """A decoder that is the whole network: the orthogonality loss of any slot is meant for it."""
        ortho = replace(self.model.ortho, where=covered_slots(self.model.ortho.where, ["decoder"]))
        return replace(self, model=replace(self.model, ortho=ortho)).stack("decoder", longest)

    def train_length(self, longest: int) -> int | None:
        """Longest sequence of the training data as attentions see it; None = not known.

        Args:
            longest: the same over all splits, with tokens that the network adds.
        """
        spec = self.spec
        if spec.modality == "image_question":
            return longest
        added = longest - max(spec.max_input_length, spec.max_output_length)
        return spec.train_length + added if spec.train_length else None


def positions_named(name: str) -> Positions:
    """The positional encoding of a name in the configuration.

    Raises:
        TargetError: no such one, or a class that is not allowed (`config.targets`).
    """
    return load_class(positions_path(name), Positions)()


def make_attention(
    node: Mapping[str, Any],
    slot: Slot,
    backbone: Backbone,
    model: Model,
    longest: int,
    train_length: int | None = None,
    positions: Positions | None = None,
) -> Attention:
    """The attention that a node of a model yaml names, for one slot of the network.

    The backbone and the model offer arguments (dropout, normalisation, ...); a mechanism gets the ones that its
    constructor names. Keys of the node come before offers.

    Args:
        longest: length of the task's longest sequence, over all its splits; offered as `max_length`.
        train_length: length of the longest sequence of the training data, offered under this name; None = not known.
        positions: of the stack; None = new ones.

    Raises:
        TargetError: the class is not allowed (`config.targets`) or is no attention.
    """
    mechanism, positions = load_class(node["_target_"], Attention), positions or positions_named(backbone.positions)
    offers = {
        "bias": backbone.attention_bias,
        "dropout": backbone.attention_dropout,
        "initialization": "xavier" if backbone.initialization == "xavier" else "torch",
        "normalization": model.normalization,
        "inner_width": backbone.d_attention,
        "positions": positions if positions.needs and slot != "cross" else None,
        "max_length": longest,
        "train_length": train_length,
        "orthogonality": model.ortho.weight > 0 and slot in model.ortho.where,
    }
    accepted = constructor_arguments(mechanism)
    arguments: dict[str, Any] = {key: value for key, value in offers.items() if key in accepted}
    arguments |= {key: value for key, value in node.items() if key != "_target_"}
    if isinstance(arguments.get("normalization"), Mapping):
        arguments["normalization"] = Normalization(**arguments["normalization"])
    attention = mechanism(backbone.d_model, backbone.n_heads, **arguments)
    attention.ortho_form, attention.ortho_values = model.ortho.form, model.ortho.values
    return attention


def count_parameters(network: nn.Module) -> int:
    """Trainable numbers; a shared weight counts once."""
    return sum(p.numel() for p in network.parameters() if p.requires_grad)
