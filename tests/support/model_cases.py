"""Every model yaml as test parameters, found by globbing: a new yaml is tested the day it is added.

Attentions are built as networks build them (`attnlab.nn.network_parts.make_attention`), at tiny sizes, in float64.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import attnlab.attention as mechanisms
from attnlab.attention.base import Attention
from attnlab.attention.core.recurrent_layer import RecurrentAttention
from attnlab.config.classes.words import POSITIONS, names_in
from attnlab.config.job_config import check_config
from attnlab.config.schema import Backbone, Config, Model
from attnlab.config.targets import signature_of
from attnlab.config.validation.type_check import build
from attnlab.data.task_spec import TaskSpec
from attnlab.nn.network_parts import make_attention, positions_named
from attnlab.tasks.kinds.base import build_network
from support.composed_configs import IN_FOLDERS, MODELS, composed, distinct
from support.law_exemptions import EXEMPTIONS
from support.small_runs import checked
from support.tensors import shaken

# Fused softmax has no batching rule on the CPU and falls back to a loop there; its results are what is tested.
ignore_slow_fallback = pytest.mark.filterwarnings("ignore:There is a performance drop")

TASKS = ("scan", "sort_of_clevr")
"""two kinds of network with every form of attention between them"""
SPECS = {
    "scan": TaskSpec(
        kind="encoder_decoder",
        modality="tokens",
        input_vocabulary=7,
        output_vocabulary=6,
        max_input_length=100,
        max_output_length=100,
    ),
    "sort_of_clevr": TaskSpec(
        kind="classification", modality="image_question", n_classes=3, image_shape=(30, 30, 3), question_size=4
    ),
    "lra_listops": TaskSpec(
        kind="classification", modality="tokens", input_vocabulary=7, n_classes=3, max_input_length=100
    ),
    "lra_retrieval": TaskSpec(
        kind="classification", modality="token_pairs", input_vocabulary=7, n_classes=2, max_input_length=100
    ),
    "flip_flop": TaskSpec(kind="language_model", modality="tokens", input_vocabulary=7, max_input_length=100),
    "mad": TaskSpec(
        kind="compression", modality="tokens", input_vocabulary=7, output_vocabulary=7, max_input_length=100
    ),
    "wikitext103_masked": TaskSpec(
        kind="masked_language_model",
        modality="tokens",
        input_vocabulary=7,
        max_input_length=100,
        mask_id=3,
        n_special=4,
        mask_share=0.3,
    ),
}
TINY = {
    "d_model": 8,
    "n_heads": 2,
    "n_layers": 2,
    "n_decoder_layers": None,
    "d_feed_forward": 12,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "attention_output_dropout": 0.0,
    "embedding_dropout": 0.0,
}


RECURRENT = {
    name: kind for name in mechanisms.__all__ if issubclass(kind := getattr(mechanisms, name), RecurrentAttention)
}
"""classes of recurrences by name"""
IN_SCORES = {name: need for name in names_in(POSITIONS) if (need := positions_named(name).needs)}
"""positions that act in the scores of self-attention, with the capability that each needs"""
LONGEST = 512
"""positions for which attentions are made (`max_length`), where a test does not say"""


@cache
def config_of(model: str, task: str = "scan") -> Config:
    """The checked configuration of a model yaml on a task yaml."""
    return checked(composed(model, task))


@cache
def models_for(task: str) -> list[str]:
    """The models that a task can be run with; for the others the check gives an error (test_training.py)."""
    return [model for model in MODELS if not check_config(composed(model, task))]


@cache
def distinct_for(task: str) -> list[str]:
    """Returns the representatives of these models (tests/support/composed_models.py)."""
    return distinct(models_for(task))


@cache
def causal_models() -> list[str]:
    """The models that can do a sequence-to-sequence task only as one decoder."""
    return [name for name in MODELS if name not in models_for("scan") and can_be_one_decoder(name)]


def can_be_one_decoder(model: str, prefix: str = "causal") -> bool:
    """Whether a model can do a sequence-to-sequence task as one decoder."""
    raw = composed(model, "scan")
    return not check_config(raw | {"backbone": raw["backbone"] | {"architecture": "decoder_only", "prefix": prefix}})


@cache
def model_of(model: str) -> Model:
    """A model yaml, for any task."""
    return build(Config, composed(model, "sort_of_clevr")).model


def backbone_of(model: str, task: str, **changes: Any) -> Backbone:
    """The task's backbone at tiny sizes without dropout."""
    return replace(build(Config, composed(model, task)).backbone, **(TINY | changes))


def network_of(model: str | Model, task: str, seed: int = 0, **changes: Any) -> nn.Module:
    """Returns a network in float64 and evaluation mode, with noise on its initial parameters.

    Args:
        model: the name of a yaml, or a model made in the test.
        changes: fields of the backbone.
    """
    torch.manual_seed(seed)
    name = model if isinstance(model, str) else "linear"
    model = model_of(model) if isinstance(model, str) else model
    return shaken(build_network(backbone_of(name, task, **changes), model, SPECS[task]).double().eval())


@cache
def one_of_each_mechanism(task: str) -> list[str]:
    """The first model with each set of attention classes."""
    models = reversed(models_for(task))
    return list({frozenset(type(m) for m in network_of(model, task).modules()): model for model in models}.values())


@dataclass(frozen=True)
class Case:
    """One attention that some model yaml asks for."""

    model: str
    slot: str
    node: str
    positions: str

    @property
    def mechanism(self) -> type[Attention]:
        return type(_made(self))

    @property
    def orthogonality(self) -> bool:
        return _made(self).orthogonality

    @property
    def divides(self) -> bool:
        """Whether its sums are divided by something, a denominator or a norm; an ablation of Qin et al. has neither."""
        normalization = model_of(self.model).normalization
        return normalization.denominator or normalization.kind != "none"

    @property
    def path(self) -> str:
        return f"{self.mechanism.__module__}.{self.mechanism.__name__}"

    def make(self, seed: int = 0, longest: int = LONGEST, penalty: bool = True, **changes: Any) -> Attention:
        """A fresh copy in float64 and evaluation mode.

        Args:
            penalty: with the orthogonality loss, where the yaml asks for it.
            changes: fields of the backbone.
        """
        torch.manual_seed(seed)
        model = model_of(self.model)
        model = model if penalty else replace(model, ortho=replace(model.ortho, weight=0.0))
        backbone = backbone_of(self.model, "sort_of_clevr", positions=self.positions, **changes)
        made = make_attention(json.loads(self.node), self.slot, backbone, model, longest)
        return shaken(made.double().eval())

    def modes(self) -> Iterator[str]:
        """The forms this attention has, with its options; in a slot of cross-attention that form alone."""
        signature = signature_of(json.loads(self.node))
        for mode in ("cross",) if self.slot == "cross" else ("bidirectional", "causal", "cross"):
            if signature.can(f"supports_{mode}") and not (mode == "cross" and self.positions in IN_SCORES):
                yield mode


@cache
def _made(case: Case) -> Attention:
    return case.make()


def slots(model: Model) -> list[tuple[str, Mapping[str, Any]]]:
    """Where a model has which attention node."""
    groups = [("encoder", group) for group in model.encoder] + [("decoder", group) for group in model.decoder or ()]
    cross = [] if model.cross is None else [("cross", model.cross)]
    return [*((slot, group.attention) for slot, group in groups), *cross]


@cache
def cases() -> Mapping[str, Case]:
    """Every distinct attention of the model yamls by a readable name, and with each positional encoding that acts in
    scores every mechanism that can, with and without a denominator.

    Of attentions that differ in nothing but the orthogonality loss, the one with it.
    """
    collected: dict[str, dict[str, Case]] = {}
    for name in (*MODELS, *IN_FOLDERS):
        model = model_of(name)
        positions = model.positions or backbone_of(name, "sort_of_clevr").positions
        for slot, node in slots(model):
            text = json.dumps(node, sort_keys=True)
            case = Case(name, slot, text, positions)
            loss = f"with {model.ortho.form}" if case.orthogonality else ""
            collected.setdefault(f"{text}{model.normalization}{positions}", {}).setdefault(loss, case)
            for encoding, need in IN_SCORES.items():
                if getattr(case.mechanism, need) and slot != "cross":
                    alike = f"{case.path} {model.normalization.denominator} {encoding}"
                    collected.setdefault(alike, {}).setdefault(loss, replace(case, positions=encoding))
    chosen = [case for same in collected.values() for loss, case in same.items() if loss or len(same) == 1]
    return {
        f"{case.model}-{case.slot}{f'-{case.positions}' if case.positions in IN_SCORES else ''}-{number}": case
        for number, case in enumerate(chosen)
    }


@cache
def positions_of(model: str) -> list[str]:
    """The positional encodings to test with a model: the model's if it names one; for two models all that act in
    scores."""
    if chosen := model_of(model).positions:
        return [chosen]
    raw = composed(model, "scan")
    tested = IN_SCORES if model in ("vanilla", "linear_ortho") else []
    able = [name for name in tested if not check_config(raw | {"backbone": raw["backbone"] | {"positions": name}})]
    return ["sinusoidal", "none", *able]


def every_network() -> Callable:
    """Parametrises a test by `model` and `positions`, over every distinct model that sequence tasks can be run with."""
    chosen = [(model, positions) for model in distinct_for("scan") for positions in positions_of(model)]
    return pytest.mark.parametrize(("model", "positions"), chosen)


def decoder_only_networks() -> Callable:
    """Parametrises a test by `network`, which makes a decoder-only network: one mechanism of each core, or the model of
    `--model`, with each kind of positions, and with both kinds of prefix where the mechanism can."""
    models = ["vanilla", "linear_l2_ortho", "cosformer", "transnormer_t2", "flash", "long_short", "threshold_relative"]
    models = [*models, "channel_gated_delta_rule"] if len(MODELS) > 1 else MODELS
    pairs = [(model, "sinusoidal") for model in models] + [("vanilla", "relative"), ("linear_l2_ortho", "rotary")]
    chosen = [
        pytest.param(
            partial(
                network_of, model, "scan", architecture="decoder_only", prefix=prefix, positions=positions, **changes
            ),
            id=f"{model}-{positions}-{prefix}",
        )
        for model, positions in pairs
        for prefix, changes in (("causal", {}), ("bidirectional", {"tied_output": False}))
        if model in models and can_be_one_decoder(model, prefix)
    ]
    return pytest.mark.parametrize("network", chosen)


def every_attention(
    law: str, *, modes: Sequence[str] = ("bidirectional", "causal", "cross"), normalized: bool = True
) -> Callable:
    """Parametrises a test by `case` and `mode`, over every attention of every model yaml and the forms it has.

    The law of step is for those that declare `supports_step`. Variants of mechanisms (`_is_variant`) are slow.

    Args:
        normalized: with every normalisation of a mechanism's queries and keys, and a paper's variants; else with the
            first normalisation that a yaml has.
    """
    collected = dict(cases())
    if not normalized:
        collected = {name: case for name, case in collected.items() if not _is_variant(case)}
        first = {(case.node, case.positions): name for name, case in reversed(collected.items())}
        collected = {name: collected[name] for name in reversed(first.values())}
    chosen = [(name, case, mode) for name, case in collected.items() for mode in case.modes() if mode in modes]
    if law == "step":
        chosen = [item for item in chosen if item[1].mechanism.supports_step]
    parameters = [
        pytest.param(
            case, mode, id=f"{name}-{mode}", marks=_excused(law, case) + [pytest.mark.slow] * _is_variant(case)
        )
        for name, case, mode in chosen
    ]
    return pytest.mark.parametrize(("case", "mode"), parameters)


def _excused(law: str, case: Case) -> list[pytest.MarkDecorator]:
    reason = EXEMPTIONS.get((law, case.path))
    return [] if reason is None else [pytest.mark.skip(reason=f"exempt from the law of {law}: {reason}")]


@cache
def _is_variant(case: Case) -> bool:
    """Whether a model in a folder asks for another form of a mechanism that a model at the top has, or a simpler
    mechanism has the same positions in scores by the same code."""
    if case.positions in IN_SCORES and case.positions != model_of(case.model).positions:
        alike = {
            other for other in cases().values() if other.positions == case.positions and _code(other) == _code(case)
        }
        if len(vars(case.mechanism)) > min(len(vars(other.mechanism)) for other in alike):
            return True
    if case.model not in IN_FOLDERS:
        return False
    twins = (other for other in cases().values() if other.model not in IN_FOLDERS and other.path == case.path)
    return any(model_of(twin.model).normalization == model_of(case.model).normalization for twin in twins)


def _code(case: Case) -> tuple[Callable, ...]:
    """The functions of a mechanism in which queries and keys have positions."""
    kind = case.mechanism
    return kind.attend, kind.step, kind.weights


def apply(
    attention: Attention, mode: str, x: Tensor, memory: Tensor | None, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Output and penalty of an attention in one of its forms."""
    return attention(x, memory if mode == "cross" else None, mask, mode == "causal")
