"""The parts of a configuration typed by the classes they name: `task` and every attention of the model."""

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass, replace
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

from attnlab.config.compose import group_choices, merged_yaml, unresolved
from attnlab.config.schema import Config, Normalization
from attnlab.config.signatures import Argument, Signature, TargetError, read_signature
from attnlab.config.suggest import choice, show
from attnlab.config.type_check import conform, hints, join, unknown_keys

BUILDER_ARGUMENTS = {
    "d_model": "backbone.d_model",
    "n_heads": "backbone.n_heads",
    "bias": "backbone.attention_bias",
    "dropout": "backbone.attention_dropout",
    "relative_positions": "backbone.positions",
    "orthogonality": "model.ortho",
    "initialization": "backbone.initialization",
}
"""Arguments of an attention that the network builder passes, and the keys that set them."""
GIVEN_BY_NODES = {"initialization"}
"""Those of them that an attention's node may set for itself alone."""

OFFERED_ARGUMENTS = ("normalization", "max_length")
"""Arguments of an attention that a yaml may give and the network builder passes else: their defaults are never used."""

TASK, ATTENTION = "attnlab.tasks.base.Task", "attnlab.attention.base.Attention"
"""What the classes of the two kinds of node extend."""

NEEDED_ARGUMENTS = {"supports_orthogonality": "orthogonality", "supports_relative_positions": "relative_positions"}
"""Arguments through which the network builder asks for a capability: a class without one does not have it."""

TASK_KEYS = ("_target_", "name", "label")
_GROUP_PLACES = ("encoder", "decoder")


def target_problems(node: Mapping[str, Any], key: str) -> list[str]:
    """Problems of a node's `_target_` itself."""
    path = join(key, "_target_")
    if "_target_" not in node:
        return [f"{path}: missing; expected the dotted path of a class"]
    base = TASK if key == "task" else ATTENTION
    try:
        signature = read_signature(str(node["_target_"]))
    except TargetError as error:
        return [f"{path}={node['_target_']}: {error}"]
    # The bases of another package's class may lie where nothing is read; `load_class` looks at it once it is imported.
    if signature.path.startswith("attnlab.") and base not in signature.methods:
        return [f"{path}={signature.path}: expected a class that extends {base}"]
    return []


def attention_nodes(model: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Key, place (encoder, decoder, cross) and node of every attention of a model, wherever its shape is right."""
    for place in _GROUP_PLACES:
        groups = model.get(place)
        for i, group in enumerate(groups if isinstance(groups, list) else []):
            if isinstance(group, Mapping) and isinstance(group.get("attention"), Mapping):
                yield f"model.{place}.{i}.attention", place, group["attention"]
    if isinstance(model.get("cross"), Mapping):
        yield "model.cross", "cross", model["cross"]


def node_signature(node: Mapping[str, Any]) -> Signature:
    """The class of a node, without the capabilities that the node's options cost it (its `limits`).

    The attribute `lost` says for each of those what costs it, in words.

    Raises:
        TargetError: no such class.
    """
    signature = read_signature(str(node.get("_target_", "")))
    lost = _unfulfilled(signature)
    for option, by_value in (signature.attributes.get("limits") or {}).items():
        argument = signature.arguments.get(option)
        given = node.get(option, argument.default if argument is not None else None)
        for value, capabilities in by_value.items():
            if given == value:
                lost |= dict.fromkeys(capabilities, f" with {option}={show(value)}")
    return replace(signature, attributes={**signature.attributes, **dict.fromkeys(lost, False), "lost": lost})


def _unfulfilled(signature: Signature) -> dict[str, str]:
    """Capabilities that an attention claims, or inherits the claim to, without what they need; and what that is."""
    if ATTENTION not in signature.methods:
        return {}
    lost = {claim: "" for claim, argument in NEEDED_ARGUMENTS.items() if argument not in signature.arguments}
    own = [names for path, names in signature.methods.items() if path != ATTENTION]
    if not signature.attributes.get("supports_step"):
        return lost
    if not any("step" in names for names in own):
        lost["supports_step"] = " (it declares supports_step and gives no step)"
    elif _steps_for_another(own):
        lost["supports_step"] = " (it gives an attend of its own and inherits the step of another)"
    return lost


def _steps_for_another(methods: list[frozenset[str]]) -> bool:
    """Whether a class has an `attend` of its own, and the `step` that a base class gave beside another `attend`.

    Args:
        methods: of the class and its bases, in Python's order.
    """
    together = any({"attend", "step"} <= names for names in methods)
    return together and any("attend" in names for names in takewhile(lambda names: "step" not in names, methods))


def attention_options(signature: Signature) -> dict[str, Argument]:
    """The arguments of an attention that a yaml may give."""
    passed = BUILDER_ARGUMENTS.keys()
    return {
        name: replace(item, required=item.required and name not in passed)
        for name, item in signature.arguments.items()
        if name not in passed or name in GIVEN_BY_NODES
    }


def attention_problems(model: Mapping[str, Any]) -> list[str]:
    """Problems of the attentions' targets and arguments; a decoder equal to the encoder is not reported twice."""
    skipped = "decoder" if model.get("decoder") == model.get("encoder") else None
    nodes = [(key, node) for key, place, node in attention_nodes(model) if place != skipped]
    return [problem for key, node in nodes for problem in _attention_problems(node, key)]


def _attention_problems(node: Mapping[str, Any], key: str) -> list[str]:
    problems = target_problems(node, key)
    if problems:
        return problems
    options = attention_options(read_signature(node["_target_"]))
    values = {name: value for name, value in node.items() if name != "_target_"}
    for name in values.keys() & (BUILDER_ARGUMENTS.keys() - GIVEN_BY_NODES):
        problems.append(f"{join(key, name)}={show(values.pop(name))}: set by {BUILDER_ARGUMENTS[name]}, not here")
    return problems + option_problems(values, options, key)


def option_problems(values: Mapping[str, Any], options: Mapping[str, Argument], key: str) -> list[str]:
    """Problems of named values against the arguments of a class."""
    problems = unknown_keys(values, list(options), key)
    for name, argument in options.items():
        kind = Normalization if name == "normalization" else argument.annotation
        if name in values and not (name == "normalization" and values[name] is None):
            problems += conform(values[name], kind, join(key, name))
        elif name not in values and argument.required:
            problems.append(f"{join(key, name)}: missing")
    return problems


def task_problems(task: Mapping[str, Any], conf: Path) -> list[str]:
    """Problems of the task's target, name, label and options."""
    problems = target_problems(task, "task") + _name_problems(task, "task", conf)
    if problems:
        return problems
    signature, fixed = read_signature(task["_target_"]), {"label": [], **task_yaml(task["name"], conf)}
    for key in ("_target_", "label"):
        if task.get(key) != fixed.get(key):
            problems.append(f"task.{key}={show(task.get(key))}: fixed by conf/task/{task['name']}.yaml")
    problems += conform(task.get("label", []), list[str], "task.label")
    options = {name: value for name, value in task.items() if name not in TASK_KEYS}
    return problems + option_problems(options, signature.arguments, "task")


def model_problems(model: Mapping[str, Any], conf: Path) -> list[str]:
    """Problems of the model's name and attentions."""
    return _name_problems(model, "model", conf) + attention_problems(model)


def _name_problems(node: Mapping[str, Any], group: str, conf: Path) -> list[str]:
    name, choices = node.get("name"), group_choices(conf).get(group, [])
    if name in [choice.rpartition("/")[2] for choice in choices]:
        return []
    return [f"{group}.name={show(name)}: no file conf/{group}/{name}.yaml{choice(str(name), choices, f'{group}s')}"]


def task_yaml(name: str, conf: Path) -> Mapping[str, Any]:
    """The `task` part of a task's yaml and its defaults list: the task's defaults."""
    return unresolved(merged_yaml("task", name, conf))["task"]


def addable_keys(config: Mapping[str, Any]) -> set[str]:
    """Keys that schema or classes have and the yaml files do not list: to be set with a plus."""
    keys = {key for key in schema_keys() if not _has(config, key)}
    owners = [("task", config["task"])] if isinstance(config.get("task"), Mapping) else []
    owners += [(key, node) for key, _, node in attention_nodes(config.get("model") or {})]
    for key, node in owners:
        if not target_problems(node, key):
            signature = read_signature(node["_target_"])
            names = signature.arguments if key == "task" else attention_options(signature)
            keys |= {join(key, name) for name in names if name not in node}
    return keys


@cache
def schema_keys() -> frozenset[str]:
    """Every key of the schema, down to where classes take over."""
    return frozenset(_schema_keys(Config, ""))


def _schema_keys(kind: Any, key: str) -> Iterator[str]:
    for name, inner in hints(kind).items():
        if is_dataclass(inner):
            yield from _schema_keys(inner, join(key, name))
        else:
            yield join(key, name)


def _has(config: Any, key: str) -> bool:
    for name in key.split("."):
        if not isinstance(config, Mapping) or name not in config:
            return False
        config = config[name]
    return True
