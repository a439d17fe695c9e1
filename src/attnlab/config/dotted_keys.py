"""Dotted keys of a nested configuration: `model.encoder.0.share` names a value in dicts and lists."""

from collections.abc import Mapping
from typing import Any

MISSING = object()
"""what a key that does not exist has for a value"""


def join(key: str, name: str) -> str:
    """A dotted key one level deeper."""
    return f"{key}.{name}" if key else name


def child(parent: Any, name: str) -> Any:
    """The value of one name in a section, or of one number in a list; `MISSING` if there is no such value."""
    if isinstance(parent, list):
        return parent[int(name)] if name.isdigit() and int(name) < len(parent) else MISSING
    return parent.get(name, MISSING) if isinstance(parent, Mapping) else MISSING


def value_at(config: Any, key: str) -> Any:
    """The value at a dotted key; `MISSING` if there is none."""
    for name in key.split("."):
        config = child(config, name)
    return config


def flatten(value: Any, key: str = "") -> dict[str, Any]:
    """Dotted keys and their values; lists of dicts by number, other lists and empty sections whole."""
    if isinstance(value, Mapping) and value:
        pairs = [(str(name), item) for name, item in value.items()]
    elif isinstance(value, list) and any(isinstance(item, (Mapping, list)) for item in value):
        pairs = [(str(i), item) for i, item in enumerate(value)]
    else:
        return {key: value}
    return {path: leaf for name, item in pairs for path, leaf in flatten(item, join(key, name)).items()}
