"""Dotted keys of a nested configuration: `model.encoder.0.share` names a value in dicts and lists."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

MISSING = object()
"""what a key that does not exist has for a value"""


@lru_cache(maxsize=2**14)
def join(key: str, name: str) -> str:
    """A dotted key one level deeper; one text for all configurations, as a report holds thousands of them."""
    return f"{key}.{name}" if key else name


def child(parent: Any, name: str) -> Any:
    """The value of one name in a section, or of one number in a list; `MISSING` if there is no such value."""
    if isinstance(parent, list):
        return parent[int(name)] if name.isdigit() and int(name) < len(parent) else MISSING
    return parent.get(name, MISSING) if isinstance(parent, Mapping) else MISSING


def section_or_group(key: str) -> str:
    """The first word of a key: `optim` of `optim.lr`, `hydra` of `hydra/launcher`."""
    return key.partition("/")[0].partition(".")[0]


def value_at(config: Any, key: str) -> Any:
    """The value at a dotted key; `MISSING` if there is none."""
    for name in key.split("."):
        config = child(config, name)
    return config


def flatten(value: Any, key: str = "") -> dict[str, Any]:
    """Dotted keys and their values; lists of dicts by number, other lists and empty sections whole."""
    flat: dict[str, Any] = {}
    _add_flat(flat, value, key)
    return flat


def _add_flat(flat: dict[str, Any], value: Any, key: str) -> None:
    if isinstance(value, (str, int, float)) or value is None:
        # most values, before the slower questions
        flat[key] = value
    elif isinstance(value, Mapping) and value:
        for name, item in value.items():
            _add_flat(flat, item, join(key, str(name)))
    elif isinstance(value, list) and any(isinstance(item, (Mapping, list)) for item in value):
        for i, item in enumerate(value):
            _add_flat(flat, item, join(key, str(i)))
    else:
        flat[key] = value


def copied(value: Any) -> Any:
    """A copy of plain dicts and lists, several times as fast as `copy.deepcopy`; nothing in it is shared."""
    if isinstance(value, dict):
        return {name: copied(item) for name, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value
