"""Overrides set in a plain configuration, as by Hydra; an unknown key is reported with the nearest known one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attnlab.config.command_line.words import Item, as_text
from attnlab.config.conf_files import group_choices
from attnlab.config.dotted_keys import MISSING, child, copied, flatten, join, value_at
from attnlab.config.message_text import MOST_OFFERED, hint, listed, offered, show
from attnlab.config.nearest_word import named_key, nearest, nearest_key
from attnlab.config.problem import Problem
from attnlab.config.report_block import Report
from attnlab.config.schema import Config, schema_keys
from attnlab.config.targets import BUILDER_ARGUMENTS, MECHANISM, attention_options, attention_sections, read_signature
from attnlab.config.validation.target_validation import target_problems
from attnlab.config.validation.type_check import hints, not_a_section

Pair = tuple[Item, Any]
"""an override and its value in one job"""


def set_all(config: dict[str, Any], pairs: Sequence[Pair], conf: Path) -> list[Problem]:
    """Set overrides in place; returns the problems.

    Args:
        config: plain dicts and lists; interpolations may be unresolved.
    """
    problems = []
    # a slot with options of its own has the others of the mechanism, which are set first
    for pair in sorted(pairs, key=lambda pair: not pair[0].key.startswith("model.mechanism")):
        _take_over_mechanism(config, pair[0].key)
        for item, value in _parts(config, *pair):
            if problem := _refusal(config, item, value) or _unknown_key(config, item, value, conf):
                problems.append(problem)
            else:
                _set(config, item, value)
    return problems


def _take_over_mechanism(config: dict[str, Any], key: str) -> None:
    """Give a slot that has the model's mechanism a copy of it, if a key is one of the slot's options."""
    names, mechanism = key.split("."), value_at(config, "model.mechanism")
    if names[0] != "model" or not isinstance(mechanism, dict):
        return
    for depth in range(2, len(names)):
        slot, parent, name = ".".join(names[:depth]), value_at(config, ".".join(names[: depth - 1])), names[depth - 1]
        if value_at(config, slot) == MECHANISM or (slot == "model.cross" and parent[name] is None):
            parent[int(name) if isinstance(parent, list) else name] = copied(mechanism)


def _parts(config: Mapping[str, Any], item: Item, value: Any) -> Iterator[Pair]:
    """An override of a section as overrides of its keys; a plus at the section allows known and new keys inside."""
    if not (isinstance(value, dict) and isinstance(value_at(config, item.key), dict)):
        yield item, value
        return
    for name, part in value.items():
        yield from _parts(config, replace(item, key=join(item.key, str(name)), add=item.add and "++"), part)


def _set(config: Any, item: Item, value: Any) -> None:
    *sections, name = item.key.split(".")
    for section in sections:
        inner = child(config, section)
        if inner is MISSING:
            inner = config[section] = {}
        config = inner
    if item.delete:
        del config[name]
    else:
        config[int(name) if isinstance(config, list) else name] = value


def _refusal(config: Mapping[str, Any], item: Item, value: Any) -> Problem | None:
    """Why an override of a key that may be known cannot be set, else None."""
    names = item.key.split(".")
    for path in (".".join(names[:depth]) for depth in range(1, len(names))):
        section = value_at(config, path)
        if isinstance(section, str) and "${" in section:
            # `${.encoder}` at model.decoder is model.encoder
            source = section.strip("${}")
            source = join(path.rpartition(".")[0], source[1:]) if source.startswith(".") else source
            return Problem(item.key, f"={show(value)}: {path} follows {source}; set it there, or {path} whole")
    old = value_at(config, item.key)
    if old is MISSING:
        return None
    if item.delete and (names[-1].isdigit() or isinstance(old, dict) or item.key in schema_keys()):
        return Problem(item.text, f": cannot be removed; set {item.key} instead")
    # whether a section may be null says its type
    if isinstance(old, dict) and value is not None:
        return not_a_section(value, item.key, list(old))
    if item.add == "+":
        return Problem(item.text, f": {item.key} exists already; drop the plus: {item.text[1:]}")
    return None


def _unknown_key(config: Mapping[str, Any], item: Item, value: Any, conf: Path) -> Problem | None:
    """The problem of a key that does not exist and cannot be added, with the nearest one, else None."""
    key, section = item.key, item.key.rpartition(".")[0]
    parent = value_at(config, section) if section else config
    new = item.add and not item.delete and (parent is MISSING or isinstance(parent, dict))
    # what the network builder passes is refused by the check of the attention, which names the right key
    is_option = isinstance(parent, dict) and "_target_" in parent and not item.delete
    passed = is_option and key.rpartition(".")[2] in BUILDER_ARGUMENTS
    if new or passed or value_at(config, key) is not MISSING:
        return None
    # classes are imported only for the keys that they have
    addable = addable_keys(config, with_classes=key.startswith(("task.", "model.")))
    if key in addable and not item.delete:
        # in a sweep over groups, two are right for choices that have the key and for those that lack it
        return Problem(key, f"={show(value)}: not listed in the yaml files; set it with ++{as_text(item, value)}")
    near = _near(config, key, addable, conf)
    if item.delete:
        return Problem(item.text, f": unknown key{near}")
    return Problem(key, f"={show(value)}: unknown key{near}")


def _near(config: Mapping[str, Any], key: str, addable: set[str], conf: Path) -> str:
    """What is nearest to an unknown key, and what is allowed in its section."""
    # a slot that has the mechanism is no key with a value
    own = (name for name, value in flatten(config).items() if value != MECHANISM)
    groups, keys = group_choices(conf), [*own, *sorted(addable)]
    group, slash, choice = key.partition("/")
    if slash and group in groups:
        return hint(f"{group}={choice}")
    section = key
    while section := section.rpartition(".")[0]:
        inside = [other.removeprefix(f"{section}.") for other in keys if other.startswith(f"{section}.")]
        if inside:
            names = dict.fromkeys(other.partition(".")[0] for other in inside)
            return f"{hint(nearest_key(key, keys))}; allowed in {section}: {offered(names)}"
    sections = [name for name in hints(Config) if name not in groups]
    called = named_key(key, [*keys, *groups])
    near = called or nearest(key, [*groups, *sections]) or nearest_key(key, keys)
    others = offered(sections, key, MOST_OFFERED - len(groups))
    return f"{hint(near)}; groups: {listed(groups)}; keys and sections: {others}"


def overruled_by_model(pairs: Sequence[Pair], config: Mapping[str, Any]) -> list[Problem]:
    """Problems of overrides of backbone keys that the model sets too: the model's value is the one in use."""
    problems = []
    for item, value in pairs:
        section, _, name = item.key.partition(".")
        used = config["model"].get(name) if section == "backbone" and isinstance(config.get("model"), dict) else None
        if used is not None and used != value:
            claim = f"={show(value)}: model {show(config['model'].get('name'))} has model.{name}={show(used)}"
            text = f"{claim}, which is used; write model.{name}={show(value)}, or leave this out"
            problems.append(Problem(item.key, text))
    return problems


def missing_mechanism(config: Mapping[str, Any]) -> Problem | None:
    """The problem of a model that names no mechanism and has slots that refer to it."""
    model = config.get("model")
    if isinstance(value_at(model, "mechanism"), Mapping) or MECHANISM not in flatten(model).values():
        return None
    line = "mechanism: {_target_: <package>.<module>.<class>}"
    return Problem("model.mechanism", f": missing; add to the yaml of model {value_at(model, 'name')}: {line}")


def misnamed(config: Mapping[str, Any], choices: Mapping[str, str | None]) -> list[Problem]:
    """Problems of a task or model whose `name` is not the name of its file: its runs would stand under another name."""
    problems = []
    for group in ("task", "model"):
        file = str(choices.get(group)).rpartition("/")[2]
        name = config[group].get("name") if isinstance(config.get(group), dict) else None
        if name is not None and name != file:
            claim = f"={show(name)}: the choice is {group}={choices[group]}"
            problems.append(Problem(f"{group}.name", f"{claim}; its file must say name: {file}"))
    return problems


def list_advice(item: Item, config: Mapping[str, Any]) -> str:
    """How several values are written as one list, for keys that take a list; else empty."""
    values = ",".join(map(show, item.values))
    return f"; one list is written {item.key}=[{values}]" if isinstance(flatten(config).get(item.key), list) else ""


def addable_keys(config: Mapping[str, Any], with_classes: bool) -> set[str]:
    """Keys of the schema, and of classes, that the yaml files do not list: a plus is needed to set them."""
    of_report = [join("report", name) for name in hints(Report)] if isinstance(config.get("report"), Mapping) else []
    keys = {key for key in (*schema_keys(), *of_report) if value_at(config, key) is MISSING}
    if not with_classes:
        return keys
    nodes = [("task", config["task"])] if isinstance(config.get("task"), Mapping) else []
    nodes += attention_sections(config.get("model"))
    for key, node in nodes:
        if not target_problems(node, key):
            signature = read_signature(node["_target_"])
            names = signature.arguments if key == "task" else attention_options(signature)
            keys |= {join(key, name) for name in names if name not in node}
    return keys
