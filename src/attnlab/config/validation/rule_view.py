"""A configuration as the compatibility rules read it: its classes, its attentions in use, its kind of task."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attnlab.config.classes.words import kind_path, positions_path
from attnlab.config.dotted_keys import MISSING, value_at
from attnlab.config.layer_plan import filled_shares
from attnlab.config.targets import (
    KIND_BASE,
    POSITIONS_BASE,
    Signature,
    attention_nodes,
    class_at,
    load_class,
    signature_of,
)

FORMS = ("bidirectional", "causal", "cross", "step")
"""forms of an attention, each a capability `supports_*`"""
SLOTS = {
    "encoder": "self-attention of the encoder",
    "decoder": "causal self-attention",
    "cross": "the decoder's attention to the encoder",
}
"""slots of attention in words"""


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
        """The kind as the task names it."""
        return self.task.declares("kind") or "encoder_decoder"

    @property
    def kind_class(self) -> Any:
        """The class of the kind (`tasks.kinds`); a TargetError if there is none."""
        return load_class(kind_path(self.kind), class_at(KIND_BASE))

    @property
    def needs(self) -> Mapping[str, Sequence[str]]:
        """Slots of attention in the network of this task, and the forms that an attention needs there."""
        backbone = {key: self[f"backbone.{key}"] for key in ("architecture", "prefix")}
        return self.kind_class.needs_of(self.task.cls, self["task"], backbone)

    def with_values(self, section: str, values: Mapping[str, Any]) -> "View":
        """The same configuration with other values in a section."""
        return View({**self.config, section: {**self.config[section], **values}}, self.broken, self.conf)

    @property
    def positions(self) -> tuple[str, str]:
        """Key and value of the positional encoding in use: the model's, else the backbone's."""
        key = "model.positions" if self["model.positions"] else "backbone.positions"
        return key, self[key]

    @property
    def positions_class(self) -> Any:
        """The class of the positional encoding (`attention.positions`)."""
        return load_class(positions_path(self.positions[1]), class_at(POSITIONS_BASE))

    def attentions(self, *slots: str) -> Iterator[tuple[str, str, Signature]]:
        """Key, slot and class of every attention in use, in the given slots or, without any, in all.

        A decoder alone that is the encoder's has its keys, which are those that a command sets.
        """
        model = {slot: self[f"model.{slot}"] for slot in self.needs}
        unused = set(_unused(model))
        of_encoder = "encoder" not in model and model.get("decoder") == self["model.encoder"]
        for key, slot, node in attention_nodes(model):
            if (not slots or slot in slots) and key not in unused:
                shown = key.replace("model.decoder", "model.encoder", 1) if of_encoder else key
                yield shown, slot, signature_of(node)


def _unused(model: Mapping[str, Any]) -> Iterator[str]:
    """Keys of attentions whose group has no layer."""
    for slot, groups in model.items():
        if isinstance(groups, list):
            shares = filled_shares([group["share"] for group in groups])
            yield from (f"model.{slot}.{i}.attention" for i, share in enumerate(shares) if share == 0)
