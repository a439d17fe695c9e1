"""Capabilities of tasks and attentions: as the rules ask for them, and of the shipped models, for messages."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf.errors import OmegaConfBaseException

from attnlab.config.compose import group_choices, merged_yaml, plain
from attnlab.config.layer_plan import filled_shares
from attnlab.config.signatures import Signature, TargetError
from attnlab.config.suggest import listed
from attnlab.config.target_validation import attention_nodes, node_signature

CAPABILITIES = {
    "supports_bidirectional": True,
    "supports_causal": True,
    "supports_cross": True,
    "supports_step": False,
    "supports_relative_positions": False,
    "supports_orthogonality": False,
    "has_validation": False,
    "has_groups": False,
}
"""What a task or attention class can do when it does not say so."""


NEEDS = {
    "encoder_decoder": {"encoder": ["bidirectional"], "decoder": ["causal", "step"], "cross": ["cross", "step"]},
    "classification": {"encoder": ["bidirectional"]},
    "language_model": {"decoder": ["causal"]},
    "masked_language_model": {"encoder": ["bidirectional"]},
}
"""The places of attention in the network of each kind of task, and the forms that are needed there."""


class Unknown(Exception):
    """A rule asked for a value that is itself wrong, so the rule has nothing to say."""


class View:
    """A configuration as the rules see it: `view["backbone.d_model"]`, without the values known to be wrong."""

    def __init__(self, config: Mapping[str, Any], broken: set[str], conf: Path) -> None:
        self.config, self.broken, self.conf = config, broken, conf

    def __getitem__(self, key: str) -> Any:
        if any(wrong == key or wrong.startswith(f"{key}.") or key.startswith(f"{wrong}.") for wrong in self.broken):
            raise Unknown(key)
        value = self.config
        for name in key.split("."):
            if not isinstance(value, Mapping) or name not in value:
                raise Unknown(key)
            value = value[name]
        return value

    @property
    def task(self) -> Signature:
        return signature_of(self["task"])

    @property
    def kind(self) -> str:
        return self.task.attributes.get("kind") or "encoder_decoder"

    @property
    def places(self) -> list[str]:
        """Where this task's network has attention."""
        return list(NEEDS[self.kind])

    def attentions(self, *places: str) -> Iterator[tuple[str, str, Signature]]:
        """Key, place and class of every attention in use, at these places only when any are named."""
        model = {name: self[f"model.{name}"] for name in self.places}
        unused = set(_unused(model))
        for key, place, node in attention_nodes(model):
            if (not places or place in places) and key not in unused:
                yield key, place, signature_of(node)


def _unused(model: Mapping[str, Any]) -> Iterator[str]:
    """Keys of attentions whose group has no layer."""
    for place, groups in model.items():
        if isinstance(groups, list):
            shares = filled_shares([group["share"] for group in groups])
            yield from (f"model.{place}.{i}.attention" for i, share in enumerate(shares) if share == 0)


def signature_of(node: Mapping[str, Any]) -> Signature:
    """The class of a node.

    Raises:
        Unknown: there is none; that is reported elsewhere.
    """
    try:
        return node_signature(node)
    except TargetError:
        raise Unknown(str(node.get("_target_"))) from None


def can(signature: Signature, capability: str) -> bool:
    """Whether a class has a capability, as declared by it or by default."""
    return bool(signature.attributes.get(capability, CAPABILITIES[capability]))


def all_can(signatures: list[Signature], capability: str) -> bool:
    """Whether there are classes here and each has a capability."""
    return bool(signatures) and all(can(signature, capability) for signature in signatures)


def class_name(signature: Signature) -> str:
    """A class's name without its module."""
    return signature.path.rpartition(".")[2]


def models_that_can(conf: Path, able: Callable[[dict[str, Any]], bool]) -> str:
    """`models that can: ...`; `able` judges the classes of a model by place and its `ortho.where` (as `ortho`).

    Those in subfolders are parts of one paper's tables and not named.
    """
    shipped = [name for name in group_choices(conf)["model"] if "/" not in name]
    names = [name for name in shipped if (found := _model_classes(name, conf)) and able(found)]
    return f"models that can: {listed(names)}"


@cache
def _model_classes(name: str, conf: Path) -> dict[str, Any]:
    """The classes of a shipped model by place, and its `ortho.where`; empty when its yaml or a class is broken."""
    found: dict[str, Any] = {"encoder": [], "decoder": [], "cross": []}
    try:
        model = plain(merged_yaml("model", name, conf))
        for _, place, node in attention_nodes(model):
            found[place].append(node_signature(node))
    except (TargetError, OmegaConfBaseException):
        return {}
    found["ortho"] = model.get("ortho", {}).get("where", [])
    return found
