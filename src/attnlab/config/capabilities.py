"""Capabilities of tasks, attentions and shipped models, as their classes declare them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from omegaconf.errors import OmegaConfBaseException

from attnlab.config.allowed_targets import TargetError, class_at
from attnlab.config.compose import group_choices, merged_yaml, plain
from attnlab.config.message_text import listed
from attnlab.config.named_classes import kind_path
from attnlab.config.signatures import Signature
from attnlab.config.target_validation import attention_nodes, node_signature
from attnlab.config.user_conf import cached_per_folder


class Unknown(Exception):
    """A rule asked for a missing or wrong value, which another check reports."""


def signature_of(node: Mapping[str, Any]) -> Signature:
    """The class of a section.

    Raises:
        Unknown: no such class, which the check of targets reports.
    """
    try:
        return node_signature(node)
    except TargetError:
        raise Unknown(str(node.get("_target_"))) from None


def kind_of_task(task: Signature) -> Any:
    """The class of a task's kind (`tasks.kinds`).

    Raises:
        Unknown: no such class.
    """
    try:
        return class_at(kind_path(task.declares("kind") or "encoder_decoder"))
    except TargetError:
        raise Unknown("kind") from None


def all_can(signatures: list[Signature], capability: str) -> bool:
    """Whether there are classes and each has a capability."""
    return bool(signatures) and all(signature.can(capability) for signature in signatures)


def class_name(signature: Signature) -> str:
    """A class's name without its module."""
    return signature.cls.__name__


def models_that_can(conf: Path, able: Callable[[dict[str, Any]], bool]) -> str:
    """`models that can: ...`, for messages; models in subfolders belong to one paper's tables and are left out.

    Args:
        able: takes the classes of a model by slot and, as `ortho`, its `ortho.where`.
    """
    shipped = {name: _model_classes(name, conf) for name in group_choices(conf)["model"] if "/" not in name}
    names = [name for name, found in shipped.items() if found and able(found)]
    return f"models that can: {listed(names)}"


@cached_per_folder
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
