"""Checks of the configuration sections that a `_target_` class types: `task` and every attention of the model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnlab.config.conf_files import aliases, group_choices, task_yaml
from attnlab.config.dotted_keys import join
from attnlab.config.message_text import show
from attnlab.config.nearest_word import choice
from attnlab.config.problem import Problem
from attnlab.config.targets import (
    ATTENTION,
    BUILDER_ARGUMENTS,
    OVERRIDABLE_ARGUMENTS,
    TASK,
    TASK_KEYS,
    Argument,
    TargetError,
    attention_nodes,
    attention_options,
    class_at,
    load_class,
    read_signature,
)
from attnlab.config.validation.type_check import conform, unknown_keys


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
    offer = choice(str(name), choices, f"{group}s", aliases(group, conf))
    return [Problem(f"{group}.name", f"={show(name)}: no file conf/{group}/{name}.yaml{offer}")]
