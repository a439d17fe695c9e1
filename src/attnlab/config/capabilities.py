"""Capabilities of tasks, attentions and shipped models: what a compatibility rule can ask of a configuration."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf.errors import OmegaConfBaseException

from attnlab.config.compose import group_choices, merged_yaml, plain
from attnlab.config.dotted_keys import MISSING, value_at
from attnlab.config.layer_plan import filled_shares
from attnlab.config.message_text import listed
from attnlab.config.signatures import Signature, TargetError, read_signature
from attnlab.config.tables import table_beside
from attnlab.config.target_validation import ATTENTION, TASK, attention_nodes, node_signature

NEEDS: dict[str, dict[str, list[str]]] = table_beside(__file__)
"""slots of attention in the network of each kind of task, and the forms that an attention needs there"""


class Unknown(Exception):
    """A rule asked for a missing or wrong value, which another check reports."""


class View:
    """A configuration for the rules: `view["backbone.d_model"]`; a missing or wrong value raises `Unknown`."""

    def __init__(self, config: Mapping[str, Any], broken: set[str], conf: Path) -> None:
        self.config, self.broken, self.conf = config, broken, conf

    def __getitem__(self, key: str) -> Any:
        if any(wrong == key or wrong.startswith(f"{key}.") or key.startswith(f"{wrong}.") for wrong in self.broken):
            raise Unknown(key)
        value = value_at(self.config, key)
        if value is MISSING:
            raise Unknown(key)
        return value

    @property
    def task(self) -> Signature:
        """The class of the task."""
        return signature_of(self["task"])

    @property
    def kind(self) -> str:
        """The kind of the task, a key of `NEEDS`."""
        return self.task.attributes.get("kind") or "encoder_decoder"

    @property
    def slots(self) -> list[str]:
        """Slots of attention in the network of this task."""
        return list(NEEDS[self.kind])

    @property
    def positions(self) -> tuple[str, str]:
        """Key and value of the positional encoding in use: the model's, else the backbone's."""
        key = "model.positions" if self["model.positions"] else "backbone.positions"
        return key, self[key]

    def attentions(self, *slots: str) -> Iterator[tuple[str, str, Signature]]:
        """Key, slot and class of every attention in use, in the given slots or, without any, in all."""
        model = {slot: self[f"model.{slot}"] for slot in self.slots}
        unused = set(_unused(model))
        for key, slot, node in attention_nodes(model):
            if (not slots or slot in slots) and key not in unused:
                yield key, slot, signature_of(node)


def _unused(model: Mapping[str, Any]) -> Iterator[str]:
    """Keys of attentions whose group has no layer."""
    for slot, groups in model.items():
        if isinstance(groups, list):
            shares = filled_shares([group["share"] for group in groups])
            yield from (f"model.{slot}.{i}.attention" for i, share in enumerate(shares) if share == 0)


def signature_of(node: Mapping[str, Any]) -> Signature:
    """The class of a section.

    Raises:
        Unknown: no such class, which the check of targets reports.
    """
    try:
        return node_signature(node)
    except TargetError:
        raise Unknown(str(node.get("_target_"))) from None


def can(signature: Signature, capability: str) -> bool:
    """Whether a class has a capability, declared or inherited.

    A base class in another package may not be readable from source: then the defaults of attnlab count.
    """
    return bool({**_of_bases(), **signature.attributes}[capability])


@cache
def _of_bases() -> dict[str, Any]:
    return {**read_signature(TASK).attributes, **read_signature(ATTENTION).attributes}


def all_can(signatures: list[Signature], capability: str) -> bool:
    """Whether there are classes and each has a capability."""
    return bool(signatures) and all(can(signature, capability) for signature in signatures)


def class_name(signature: Signature) -> str:
    """A class's name without its module."""
    return signature.path.rpartition(".")[2]


def models_that_can(conf: Path, able: Callable[[dict[str, Any]], bool]) -> str:
    """`models that can: ...`, for messages; models in subfolders belong to one paper's tables and are left out.

    Args:
        able: takes the classes of a model by slot and, as `ortho`, its `ortho.where`.
    """
    shipped = {name: _model_classes(name, conf) for name in group_choices(conf)["model"] if "/" not in name}
    names = [name for name, found in shipped.items() if found and able(found)]
    return f"models that can: {listed(names)}"


@cache
def _model_classes(name: str, conf: Path) -> dict[str, Any]:
    """The classes of a shipped model by slot, and its `ortho.where`; empty if its yaml or a class is broken."""
    found: dict[str, Any] = {"encoder": [], "decoder": [], "cross": []}
    try:
        model = plain(merged_yaml("model", name, conf))
        for _, slot, node in attention_nodes(model):
            found[slot].append(node_signature(node))
    except (TargetError, OmegaConfBaseException):
        return {}
    found["ortho"] = model.get("ortho", {}).get("where", [])
    return found
