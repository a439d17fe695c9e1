"""Checks of the configuration sections that a `_target_` class types: `task` and every attention of the model."""

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass, replace
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

from attnlab.config.allowed_targets import TargetError, class_at, load_class
from attnlab.config.compose import group_choices, merged_yaml, unresolved
from attnlab.config.dotted_keys import MISSING, join, value_at
from attnlab.config.message_text import choice, show
from attnlab.config.problem import Problem
from attnlab.config.schema import Config
from attnlab.config.signatures import Argument, Signature, read_signature
from attnlab.config.type_check import conform, hints, unknown_keys
from attnlab.config.user_conf import cached_per_folder

BUILDER_ARGUMENTS = {
    "d_model": "backbone.d_model",
    "n_heads": "backbone.n_heads",
    "bias": "backbone.attention_bias",
    "dropout": "backbone.attention_dropout",
    "positions": "backbone.positions",
    "orthogonality": "model.ortho",
    "initialization": "backbone.initialization",
}
"""arguments of an attention that the network builder passes, and the keys that set them"""

OVERRIDABLE_ARGUMENTS = {"initialization"}
"""builder arguments that the section of one attention may set for that attention alone"""

OFFERED_ARGUMENTS = ("normalization", "max_length", "train_length")
"""arguments of an attention that a yaml or else the network builder sets: their own defaults are never used"""

TASK, ATTENTION = "attnlab.tasks.base.Task", "attnlab.attention.base.Attention"
"""base classes that a `_target_` must extend"""

NEEDED_ARGUMENTS = {
    "supports_orthogonality": "orthogonality",
    "supports_position_scores": "positions",
    "supports_rotation": "positions",
}
"""arguments that a class must accept to have a capability, because the network builder asks for it through them"""

TASK_KEYS = ("_target_", "name", "label")


def target_problems(node: Mapping[str, Any], key: str) -> list[Problem]:
    """Problems of the `_target_` of a section."""
    path = join(key, "_target_")
    if "_target_" not in node:
        return [Problem(path, ": missing; expected the dotted path of a class")]
    try:
        load_class(str(node["_target_"]), class_at(TASK if key == "task" else ATTENTION))
    except TargetError as error:
        return [Problem(path, f"={node['_target_']}: {error}")]
    return []


def attention_nodes(model: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Key, slot (encoder, decoder, cross) and section of every attention of a model; malformed parts are skipped."""
    for slot in ("encoder", "decoder"):
        groups = model.get(slot)
        for i, group in enumerate(groups if isinstance(groups, list) else []):
            if isinstance(group, Mapping) and isinstance(group.get("attention"), Mapping):
                yield f"model.{slot}.{i}.attention", slot, group["attention"]
    if isinstance(model.get("cross"), Mapping):
        yield "model.cross", "cross", model["cross"]


def signature_of(node: Mapping[str, Any]) -> Signature:
    """The class of a section; `lost`: the capabilities that it claims in vain or that the section's options cost.

    A class attribute `limits` names these options.

    Raises:
        TargetError: no such class.
    """
    signature = read_signature(str(node.get("_target_", "")))
    lost = _vain_claims(signature)
    for option, by_value in (signature.declares("limits") or {}).items():
        argument = signature.arguments.get(option)
        chosen = node.get(option, argument.default if argument is not None else None)
        for value, capabilities in by_value.items():
            if chosen == value:
                lost |= dict.fromkeys(capabilities, f" with {option}={show(value)}")
    return replace(signature, lost=lost)


def _vain_claims(signature: Signature) -> dict[str, str]:
    """Capabilities that an attention claims or inherits although it lacks what they need, each with the reason."""
    cls: Any = signature.cls
    base: Any = class_at(ATTENTION)
    if not issubclass(cls, base):
        return {}
    lost = {claim: "" for claim, argument in NEEDED_ARGUMENTS.items() if argument not in signature.arguments}
    if cls.supports_step and cls.step is base.step:
        lost["supports_step"] = " (it declares supports_step and gives no step)"
    elif cls.supports_step and _steps_for_another_attend(cls, base):
        lost["supports_step"] = " (it gives an attend of its own and inherits the step of another)"
    return lost


def _steps_for_another_attend(cls: type, base: type) -> bool:
    """Whether a class overrides `attend` and inherits a `step` that was written for the `attend` of a base class."""
    levels = [vars(level) for level in cls.__mro__ if level is not base]
    together = any("attend" in names and "step" in names for names in levels)
    return together and any("attend" in names for names in takewhile(lambda names: "step" not in names, levels))


def attention_options(signature: Signature) -> dict[str, Argument]:
    """The arguments of an attention that a yaml may set."""
    passed = BUILDER_ARGUMENTS.keys()
    return {
        name: replace(item, required=item.required and name not in passed)
        for name, item in signature.arguments.items()
        if name not in passed or name in OVERRIDABLE_ARGUMENTS
    }


def own_arguments(signature: Signature, key: str) -> dict[str, Argument]:
    """The arguments that only a yaml sets: for others, a default of the class would hide the backbone's value.

    Args:
        key: of the section: `task` or an attention's.
    """
    others = TASK_KEYS if key == "task" else {*OFFERED_ARGUMENTS, *BUILDER_ARGUMENTS}
    return {name: argument for name, argument in signature.arguments.items() if name not in others}


def _attention_problems(node: Mapping[str, Any], key: str) -> list[Problem]:
    problems = target_problems(node, key)
    if problems:
        return problems
    options = attention_options(read_signature(node["_target_"]))
    values = {name: value for name, value in node.items() if name != "_target_"}
    for name in values.keys() & (BUILDER_ARGUMENTS.keys() - OVERRIDABLE_ARGUMENTS):
        taken = f"set by {BUILDER_ARGUMENTS[name]}, not here; an option of your own needs another name"
        problems.append(Problem(join(key, name), f"={show(values.pop(name))}: {taken}"))
    return problems + _option_problems(values, options, key)


def _option_problems(values: Mapping[str, Any], options: Mapping[str, Argument], key: str) -> list[Problem]:
    """Problems of options against the arguments of a class."""
    problems = unknown_keys(values, list(options), key)
    for name, argument in options.items():
        if name in values:
            problems += conform(values[name], argument.annotation, join(key, name))
        elif name not in values and argument.required:
            problems.append(Problem(join(key, name), ": missing"))
    return problems


def task_problems(task: Mapping[str, Any], conf: Path) -> list[Problem]:
    """Problems of the task's target, name, label and options."""
    problems = target_problems(task, "task") + _name_problems(task, "task", conf)
    if problems:
        return problems
    signature, fixed = read_signature(task["_target_"]), {"label": [], **task_yaml(task["name"], conf)}
    for key in ("_target_", "label"):
        if task.get(key) != fixed.get(key):
            fixed_by = f"fixed by conf/task/{task['name']}.yaml"
            problems.append(Problem(f"task.{key}", f"={show(task.get(key))}: {fixed_by}"))
    problems += conform(task.get("label", []), list[str], "task.label")
    options = {name: value for name, value in task.items() if name not in TASK_KEYS}
    return problems + _option_problems(options, signature.arguments, "task")


def model_problems(model: Mapping[str, Any], conf: Path) -> list[Problem]:
    """Problems of the model's name and attentions."""
    problems = _name_problems(model, "model", conf)
    for key, slot, node in attention_nodes(model):
        # A decoder equal to the encoder is not reported twice.
        if slot != "decoder" or model["decoder"] != model.get("encoder"):
            problems += _attention_problems(node, key)
    return problems


def _name_problems(node: Mapping[str, Any], group: str, conf: Path) -> list[Problem]:
    name, choices = node.get("name"), group_choices(conf).get(group, [])
    if name in [choice.rpartition("/")[2] for choice in choices]:
        return []
    offer = choice(str(name), choices, f"{group}s")
    return [Problem(f"{group}.name", f"={show(name)}: no file conf/{group}/{name}.yaml{offer}")]


@cached_per_folder
def task_yaml(name: str, conf: Path) -> Mapping[str, Any]:
    """The `task` section of a task's yaml, its defaults list included; nobody changes it."""
    return unresolved(merged_yaml("task", name, conf))["task"]


def addable_keys(config: Mapping[str, Any], with_classes: bool) -> set[str]:
    """Keys of the schema, and of classes, that the yaml files do not list: a plus is needed to set them."""
    keys = {key for key in schema_keys() if value_at(config, key) is MISSING}
    if not with_classes:
        return keys
    nodes = [("task", config["task"])] if isinstance(config.get("task"), Mapping) else []
    nodes += [(key, node) for key, _, node in attention_nodes(config.get("model") or {})]
    for key, node in nodes:
        if not target_problems(node, key):
            signature = read_signature(node["_target_"])
            names = signature.arguments if key == "task" else attention_options(signature)
            keys |= {join(key, name) for name in names if name not in node}
    return keys


@cache
def schema_keys() -> frozenset[str]:
    """All keys of the schema; inside `task` and attentions, keys belong to the `_target_` classes."""
    return frozenset(_schema_keys(Config, ""))


def _schema_keys(kind: Any, key: str) -> Iterator[str]:
    for name, inner in hints(kind).items():
        if is_dataclass(inner):
            yield from _schema_keys(inner, join(key, name))
        else:
            yield join(key, name)
