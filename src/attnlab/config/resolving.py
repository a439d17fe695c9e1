"""Setting many overrides and resolving what follows them, no more often than needed."""

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from attnlab.config.compose import plain
from attnlab.config.overrides import Item
from attnlab.config.setting import Setter, flatten
from attnlab.config.suggest import show

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
