"""Overrides applied to a plain configuration, as by Hydra; an unknown key is reported with the nearest known one."""

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from attnlab.config.command_line_words import Item, as_text
from attnlab.config.compose import group_choices, plain
from attnlab.config.dotted_keys import MISSING, child, flatten, join, value_at
from attnlab.config.message_text import MOST_OFFERED, first_line, hint, listed, offered, show
from attnlab.config.nearest_word import key_called, nearest, nearest_key
from attnlab.config.schema import Config
from attnlab.config.target_validation import schema_keys
from attnlab.config.type_check import hints, not_a_section

Pair = tuple[Item, Any]
"""an override and its value in one job"""


@dataclass(frozen=True)
class Setter:
    """Sets overrides on `config`, in place.

    config:  plain dicts and lists; interpolations may be unresolved.
    addable: missing keys that may be set with a plus.
    plus:    what adds a key: `++` in a sweep over groups, because some of the choices may have the key already.
    """

    config: dict[str, Any]
    addable: set[str]
    conf: Path
    plus: str = "+"

    def set_all(self, pairs: Sequence[Pair]) -> list[str]:
        """Set several values; returns the problems. A value that cannot be resolved (`${no.such.key}`) is undone."""
        problems = []
        for item, value in pairs:
            before = copy.deepcopy(self.config) if "${" in str(value) else None
            problem = self.set(item, value)
            if before is not None and not problem and (error := resolve(self.config)[1]):
                problem = f"{as_text(item, value)}: {error}"
                self.config.clear()
                self.config.update(before)
            problems += [problem] if problem else []
        return problems

    def set(self, item: Item, value: Any) -> str | None:
        """Set one value; returns the problem if it cannot be set, else None."""
        parent: dict[str, Any] | list[Any] = self.config
        names = item.key.split(".")
        for depth, name in enumerate(names[:-1], start=1):
            section = child(parent, name)
            if isinstance(section, str) and "${" in section:
                path = ".".join(names[:depth])
                return (
                    f"{item.key}={show(value)}: {path} follows {_source(path, section)}; set it there, or {path} whole"
                )
            if section is MISSING and item.add and isinstance(parent, dict):
                section = parent[name] = {}
            if not isinstance(section, (dict, list)):
                return self._unknown(item, value)
            parent = section
        return self._set_in(parent, names[-1], item, value)

    def _set_in(self, parent: Any, name: str, item: Item, value: Any) -> str | None:
        old = child(parent, name)
        if old is MISSING and (item.delete or not item.add or isinstance(parent, list)):
            return self._unknown(item, value)
        if item.delete:
            if isinstance(parent, list) or isinstance(old, dict) or item.key in schema_keys():
                return f"{item.text}: cannot be removed; set {item.key} instead"
            del parent[name]
        elif isinstance(old, dict) and isinstance(value, dict):
            # Sections are merged; a plus at the section allows known and new keys inside.
            inner = [Item(item.text, join(item.key, key), (part,), item.add and "++") for key, part in value.items()]
            return next(filter(None, (self.set(part, part.values[0]) for part in inner)), None)
        elif isinstance(old, dict):
            return not_a_section(value, item.key, list(old))
        elif old is not MISSING and item.add == "+":
            return f"{item.text}: {item.key} exists already; drop the plus: {item.text[1:]}"
        else:
            parent[int(name) if isinstance(parent, list) else name] = value
        return None

    def _unknown(self, item: Item, value: Any) -> str:
        """The problem of an unknown key: the nearest known one, and the keys that are allowed in its section."""
        key, text = item.key, item.text if item.delete else f"{item.key}={show(value)}"
        group, slash, choice = key.partition("/")
        groups, keys = group_choices(self.conf), [*flatten(self.config), *sorted(self.addable)]
        if key in self.addable and not item.delete:
            by = "a plus" if self.plus == "+" else "two"
            return f"{text}: not listed in the yaml files; set it with {by}: {self.plus}{text}"
        if slash and group in groups:
            return f"{text}: unknown key; nearest: {group}={choice}"
        section = key
        while section := section.rpartition(".")[0]:
            inside = [other.removeprefix(f"{section}.") for other in keys if other.startswith(f"{section}.")]
            if not inside:
                continue
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
    """How several values are written as one list, for keys that take a list; else empty."""
    values = ",".join(map(show, item.values))
    return f"; one list is written {item.key}=[{values}]" if isinstance(flatten(config).get(item.key), list) else ""


def _source(path: str, interpolation: str) -> str:
    """The key that an interpolation at a path names (`${.encoder}` at model.decoder: model.encoder)."""
    name = interpolation.strip("${}")
    return join(path.rpartition(".")[0], name[1:]) if name.startswith(".") else name


def resolve(raw: dict[str, Any]) -> tuple[dict[str, Any] | None, str | None]:
    """The configuration with interpolations resolved, or the reason why this fails."""
    try:
        return plain(OmegaConf.create(raw)), None
    except OmegaConfBaseException as error:
        return None, first_line(error)


def followed_names(raw: Mapping[str, Any]) -> set[str] | None:
    """Last names of the keys that interpolations refer to; every word of one with a resolver; None if unknown."""
    names: set[str] = set()
    for text in (str(value) for value in flatten(raw).values() if "${" in str(value)):
        if re.search(r"\$\{\.*\$\{", text):
            return None
        simple = re.fullmatch(r"\$\{[\w.]+\}", text)
        names |= {text[2:-1].split(".")[-1]} if simple else set(re.findall(r"\w+", text))
    return names


def overruled_by_model(pairs: Sequence[Pair], config: Mapping[str, Any]) -> list[str]:
    """Problems of overrides of backbone keys that the model sets too: the model's value is the one in use."""
    problems = []
    for item, value in pairs:
        section, _, name = item.key.partition(".")
        own = config["model"].get(name) if section == "backbone" and isinstance(config.get("model"), Mapping) else None
        if own is not None and own != value:
            claim = f"{item.key}={show(value)}: model {show(config['model'].get('name'))} has one of its own"
            problems.append(f"{claim}, which is used: model.{name}={show(own)}; set that, or leave this out")
    return problems


def misnamed(config: Mapping[str, Any], choices: Mapping[str, str | None]) -> list[str]:
    """Problems of a task or model whose `name` is not the name of its file: its runs would stand under another name."""
    problems = []
    for group in ("task", "model"):
        file = str(choices.get(group)).rpartition("/")[2]
        name = config[group].get("name") if isinstance(config.get(group), Mapping) else None
        if name is not None and name != file:
            problems.append(
                f"{group}.name={show(name)}: the choice is {group}={choices[group]}; its file must say name: {file}"
            )
    return problems


def is_swept(item: Item, config: Mapping[str, Any] | None) -> bool:
    """Whether an override has several values; not for an unknown key, whose name is the problem."""
    known = config is None or item.group or item.add or value_at(config, item.key) is not MISSING
    return bool(item.swept and known)


def not_a_sweep(item: Item, config: Mapping[str, Any], shown: bool) -> str:
    """What to write instead of several values for one run."""
    text = f"{item.key}={','.join(map(show, item.values))}"
    if shown:
        return f"{text}: --cfg shows the configuration of one run; give one value{list_advice(item, config)}"
    return f"{text}: several values need -m (a sweep): python train.py -m ... {text}{list_advice(item, config)}"


def job_name(pairs: Sequence[Pair], config: Mapping[str, Any]) -> str:
    """The swept values of a job; its model and seed if nothing is swept."""
    swept = " ".join(as_text(item, value) for item, value in pairs if item.swept)
    return swept or f"model={config['model']['name']} seed={config['seed']}"


def group_words(pairs: Sequence[Pair]) -> tuple[str, ...]:
    """The choices of groups for Hydra, which takes no null: an optional group without a word is empty."""
    return tuple(as_text(item, value) for item, value in pairs if item.group and value is not None)
