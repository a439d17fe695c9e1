"""Applies overrides to a plain configuration, as Hydra would; a key that is not there gets the nearest right one."""

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from attnlab.config.compose import group_choices, plain
from attnlab.config.key_aliases import key_called
from attnlab.config.overrides import Item
from attnlab.config.schema import Config
from attnlab.config.suggest import MOST_OFFERED, hint, listed, nearest, nearest_key, offered, show
from attnlab.config.target_validation import schema_keys
from attnlab.config.type_check import hints, join, not_a_section

_MISSING = object()


def flatten(value: Any, key: str = "") -> dict[str, Any]:
    """Dotted keys and their values; lists of dicts by number, other lists and empty parts whole."""
    if isinstance(value, Mapping) and value:
        pairs = [(str(name), item) for name, item in value.items()]
    elif isinstance(value, list) and any(isinstance(item, (Mapping, list)) for item in value):
        pairs = [(str(i), item) for i, item in enumerate(value)]
    else:
        return {key: value}
    return {path: leaf for name, item in pairs for path, leaf in flatten(item, join(key, name)).items()}


@dataclass(frozen=True)
class Setter:
    """Sets overrides on `config`, in place.

    config:  plain dicts and lists; interpolations may be unresolved.
    addable: keys that are not there and may be set with a plus.
    plus:    how a key is added: in a sweep over groups, some of whose choices may have it, with two.
    """

    config: dict[str, Any]
    addable: set[str]
    conf: Path
    plus: str = "+"

    def set(self, item: Item, value: Any) -> str | None:
        """Set one value; returns the problem if it cannot be set, else None."""
        parent, names = self.config, item.key.split(".")
        for depth, name in enumerate(names[:-1], start=1):
            child = _child(parent, name)
            if isinstance(child, str) and "${" in child:
                path = ".".join(names[:depth])
                return f"{item.key}={show(value)}: {path} follows {_source(path, child)}; set it there, or {path} whole"
            if child is _MISSING and item.add and isinstance(parent, dict):
                child = parent[name] = {}
            if not isinstance(child, (dict, list)):
                return self._unknown(item, value)
            parent = child
        return self._set_in(parent, names[-1], item, value)

    def _set_in(self, parent: Any, name: str, item: Item, value: Any) -> str | None:
        old = _child(parent, name)
        if old is _MISSING and (item.delete or not item.add or isinstance(parent, list)):
            return self._unknown(item, value)
        if item.delete:
            if isinstance(parent, list) or isinstance(old, dict) or item.key in schema_keys():
                return f"{item.text}: cannot be removed; set {item.key} instead"
            del parent[name]
        elif isinstance(old, dict) and isinstance(value, dict):
            # Sections are merged; inside a forced or added one, known and new keys are both right.
            inner = [Item(item.text, join(item.key, key), (part,), item.add and "++") for key, part in value.items()]
            return next((problem for part in inner if (problem := self.set(part, part.values[0]))), None)
        elif isinstance(old, dict):
            return not_a_section(value, item.key, list(old))
        elif old is not _MISSING and item.add == "+":
            return f"{item.text}: {item.key} exists already; drop the plus: {item.text[1:]}"
        else:
            parent[int(name) if isinstance(parent, list) else name] = value
        return None

    def _unknown(self, item: Item, value: Any) -> str:
        """The problem of a key that is not there: the nearest one, and what is allowed at its place."""
        key, text = item.key, item.text if item.delete else f"{item.key}={show(value)}"
        group, slash, choice = key.partition("/")
        groups, keys = group_choices(self.conf), [*flatten(self.config), *sorted(self.addable)]
        if key in self.addable and not item.delete:
            by = "a plus" if self.plus == "+" else "two"
            return f"{text}: not listed in the yaml files; set it with {by}: {self.plus}{text}"
        if slash and group in groups:
            return f"{text}: unknown key; nearest: {group}={choice}"
        section = next((part for part in _parents(key) if any(other.startswith(f"{part}.") for other in keys)), "")
        if section:
            inside = [other.removeprefix(f"{section}.") for other in keys if other.startswith(f"{section}.")]
            names = dict.fromkeys(other.partition(".")[0] for other in inside)
            return f"{text}: unknown key{hint(nearest_key(key, keys))}; allowed in {section}: {offered(names)}"
        sections = [name for name in hints(Config) if name not in groups]
        elsewhere = nearest_key(key, [*keys, *groups])
        if elsewhere is not None and (elsewhere.endswith(f".{key}") or key_called(key, [elsewhere])):
            return f"{text}: unknown key{hint(elsewhere)}"
        near = (None if "." in key else nearest(key, [*groups, *sections])) or elsewhere
        others = offered(sections, key, MOST_OFFERED - len(groups))
        return f"{text}: unknown key{hint(near)}; groups: {listed(groups)}; keys and sections: {others}"


def list_advice(item: Item, config: Mapping[str, Any]) -> str:
    """How several values are written as one list, where the key takes one; else nothing."""
    values = ",".join(map(show, item.values))
    return f"; one list is written {item.key}=[{values}]" if isinstance(flatten(config).get(item.key), list) else ""


def _parents(key: str) -> Iterator[str]:
    while "." in key:
        key = key.rpartition(".")[0]
        yield key


def _child(parent: Any, name: str) -> Any:
    if isinstance(parent, list):
        return parent[int(name)] if name.isdigit() and int(name) < len(parent) else _MISSING
    return parent.get(name, _MISSING)


def _source(path: str, interpolation: str) -> str:
    """The key an interpolation at a path means (`${.encoder}` at model.decoder: model.encoder)."""
    name = interpolation.strip("${}")
    return join(path.rpartition(".")[0], name[1:]) if name.startswith(".") else name


Pair = tuple[Item, Any]
"""An override and the value it has in one job."""


def as_text(item: Item, value: Any) -> str:
    """`key=value`."""
    return f"{item.key}={show(value)}"


def set_all(setter: Setter, pairs: Sequence[Pair]) -> list[str]:
    """Problems of setting these; a value that cannot be resolved (`${no.such.key}`) is taken back."""
    problems = []
    for item, value in pairs:
        before = copy.deepcopy(setter.config) if "${" in str(value) else None
        problem = setter.set(item, value)
        if before is not None and not problem and (error := resolve(setter.config)[1]):
            problem = f"{as_text(item, value)}: {error}"
            setter.config.clear()
            setter.config.update(before)
        problems += [problem] if problem else []
    return problems


def resolve(raw: dict[str, Any]) -> tuple[dict[str, Any] | None, str | None]:
    """The configuration with interpolations resolved, or the reason why not."""
    try:
        return plain(OmegaConf.create(raw)), None
    except OmegaConfBaseException as error:
        return None, first_line(error)


def references(raw: Mapping[str, Any]) -> set[str] | None:
    """Last names of the keys that interpolations follow; None when they cannot be told.

    Of one that calls a resolver or holds others: every word in it.
    """
    names: set[str] = set()
    for text in (str(value) for value in flatten(raw).values() if "${" in str(value)):
        if re.search(r"\$\{\.*\$\{", text):
            return None
        simple = re.fullmatch(r"\$\{[\w.]+\}", text)
        names |= {text[2:-1].split(".")[-1]} if simple else set(re.findall(r"\w+", text))
    return names


def followed_by_none(item: Item, value: Any, references: set[str] | None) -> bool:
    """Whether nothing else changes with this value, so that nothing need be resolved again."""
    simple = not isinstance(value, (dict, list)) and "${" not in str(value)
    return simple and references is not None and not references & set(item.key.split("."))


def first_line(error: Exception) -> str:
    """What Hydra or OmegaConf says of an error, without its surroundings."""
    message = str(error.__cause__ or error) or type(error).__name__
    return message.splitlines()[0]


def overruled_by_model(pairs: Sequence[Pair], config: Mapping[str, Any]) -> list[str]:
    """Problems of words that set a key of the backbone which the model sets too: the model's is read."""
    problems = []
    for item, value in pairs:
        section, _, name = item.key.partition(".")
        own = config["model"].get(name) if section == "backbone" and isinstance(config.get("model"), Mapping) else None
        if own is not None and own != value:
            claim = f"{item.key}={show(value)}: model {show(config['model'].get('name'))} has one of its own"
            problems.append(f"{claim}, which is used: model.{name}={show(own)}; set that, or leave this out")
    return problems
