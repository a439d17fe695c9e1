"""The contract of a kind of task: its network, the forms of attention in it, its loss, its scores, its predictions.

A kind is one file here, named by the `kind` of its tasks: `classification` is `classification.ClassificationKind`. A
kind in a package of your own is named by its dotted path.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.config.classes.words import kind_path
from attnlab.config.message_text import listed
from attnlab.config.schema import Backbone, Model
from attnlab.config.targets import load_class
from attnlab.config.validation.compatibility_rules import NOT_ALWAYS_READ
from attnlab.config.validation.rule_view import FORMS, SLOTS
from attnlab.data.batch import Batch
from attnlab.data.task_spec import TaskSpec
from attnlab.nn.layer_stack import LayerStack
from attnlab.nn.network_parts import NetworkParts
from attnlab.nn.output_head import Network

Objective = Callable[[Any, Any], tuple[Float[Tensor, ""], Float[Tensor, ""]]]
"""`Kind.loss` of some kind: (network, batch) -> loss, penalty"""
Metric = Callable[[Mapping[str, np.ndarray]], float]
"""scores of examples by name, [n] each -> a number"""
OVERRIDES = ("feed_forward", "layer_norm", "positions", "share_layers", "embedding_dropout", "attention_bias")
"""keys of the backbone that a model may replace"""


class Kind(ABC):
    """What a kind of task means; networks and batches are of the classes that the kind uses.

    modalities: modalities (`TaskSpec`) for which it has a network.
    needs:      slots of attention in the network, and the forms that an attention needs there (`Attention.supports_*`).
    reads:      keys of the backbone that not every network reads (`compatibility_rules.NOT_ALWAYS_READ`).
    counts_tokens: whether accuracies are shares of tokens, not of examples.
    metrics:    metrics besides `learn.metrics.METRICS`, by names with a word of `learn/metric_units.yaml`.
    takes_lengths: whether the user may say how long each prediction is.
    """

    modalities: ClassVar[Sequence[str]] = ("tokens",)
    needs: ClassVar[Mapping[str, Sequence[str]]]
    reads: ClassVar[Sequence[str]] = ()
    counts_tokens: ClassVar[bool] = False
    metrics: ClassVar[Mapping[str, Metric]] = {}
    takes_lengths: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if not hasattr(cls, "needs"):
            raise TypeError(f"{cls.__name__} declares no `needs`, the slots of attention in its network")
        forms = [form for needed in cls.needs.values() for form in needed]
        for name, words, known in (
            ("slot", cls.needs, SLOTS),
            ("form", forms, FORMS),
            ("key of the backbone that not every network reads", cls.reads, NOT_ALWAYS_READ),
        ):
            if unknown := [word for word in words if word not in known]:
                raise TypeError(f"{cls.__name__}: no {name} {unknown[0]}; expected {listed(known)}")

    def __init__(self, spec: TaskSpec) -> None:
        self.spec = spec

    @classmethod
    def needs_of(
        cls, task: type, options: Mapping[str, Any], backbone: Mapping[str, Any]
    ) -> Mapping[str, Sequence[str]]:
        """`needs` for a class of tasks and the options of one, before the task is made.

        Args:
            backbone: its `architecture` and `prefix`.
        """
        return cls.needs

    @abstractmethod
    def network(self, parts: NetworkParts) -> Network:
        """A new network from the parts of the backbone and the model."""

    def training_batch(self, batch: Any) -> Batch:
        """A batch as training reads it, drawn anew at every step where the kind hides or changes something."""
        return batch

    @abstractmethod
    def loss(self, network: Any, batch: Any) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Mean loss over what the batch counts (`Batch.counts`), and the unweighted penalty of the attentions."""

    @abstractmethod
    def scores(self, network: Any, batch: Any, limit: int) -> dict[str, Tensor]:
        """Named scores, one number for every example, from which `learn.metrics` computes metrics.

        `accuracy` reads `right`, and `tokens` where it is a share of tokens; perplexities read `loss` and `tokens` (or
        `words`); F1 and correlations read `predicted` and `answer`; a metric of the kind reads what it names.

        Args:
            limit: of the output length, end token included, where outputs are decoded.
        """

    @abstractmethod
    def predict(self, network: Any, batch: Any, lengths: Sequence[int] | None = None) -> list[Any]:
        """What a network in evaluation mode says about each example of a batch; its answers are not read.

        Args:
            lengths: tokens of each output, where the kind takes lengths; None = the network chooses the end.
        """


def kind_of(spec: TaskSpec) -> Kind:
    """The kind of a task.

    Raises:
        TargetError: no such kind, or a class that is not allowed (`config.targets`).
    """
    return load_class(kind_path(spec.kind), Kind)(spec)


def build_network(backbone: Backbone, model: Model, spec: TaskSpec) -> Network:
    """The network of this backbone, model and task; weights drawn from torch's global random state.

    Raises:
        ValueError: a modality for which the kind of the task has no network.
    """
    overrides = {name: getattr(model, name) for name in OVERRIDES}
    backbone = replace(backbone, **{name: value for name, value in overrides.items() if value is not None})
    kind = kind_of(spec)
    if spec.modality not in kind.modalities:
        raise ValueError(f"no network for a task of kind {spec.kind} and modality {spec.modality}")
    network = kind.network(NetworkParts(backbone, model, spec))
    if backbone.initialization in ("normal", "normal_residual"):
        network.apply(_draw_normal)
    if backbone.initialization == "normal_residual":
        _draw_residual_maps(network)
    return network


def _draw_normal(module: nn.Module) -> None:
    """The initial weights of a linear map in BERT and RoBERTa, as in fairseq's init_bert_params."""
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def _draw_residual_maps(network: Network) -> None:
    """The initial weights of the last map of each part of a layer in GPT-2: their outputs are summed over the depth."""
    for stack in (module for module in network.modules() if isinstance(module, LayerStack)):
        deviation = 0.02 / math.sqrt(2 * len(stack.applications))
        for name, module in stack.named_modules():
            if isinstance(module, nn.Linear) and name.rpartition(".")[2] in ("out_proj", "outer"):
                nn.init.normal_(module.weight, std=deviation)
