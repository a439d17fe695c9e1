"""Whose code a configuration may name: classes of attnlab, and of the packages that the user allows.

A configuration may be a stranger's (the config.yaml of a run folder), and importing a module runs it. So outside
attnlab a `_target_` is read and imported only where `ATTNLAB_PLUGINS=my_package,other` names its package, which no
configuration can set.
"""

import importlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

from attnlab.config.module_source import find_module, nearest_module
from attnlab.config.suggest import PLUGINS, hint

OWN = "attnlab"


class TargetError(Exception):
    """A `_target_` that names no class, or one that may not be named."""


def allowed_packages() -> list[str]:
    """attnlab, and what the environment allows beside it."""
    words = [word.strip() for word in os.environ.get(PLUGINS, "").split(",")]
    return [OWN, *(word for word in words if word)]


def require_allowed(path: str) -> None:
    """
    Raises:
        TargetError: the dotted path of a class is in no allowed package; says what to type where it is in another one.
    """
    packages = allowed_packages()
    if any(path.startswith(f"{package}.") for package in packages):
        return
    package, module = path.partition(".")[0], path.rpartition(".")[0]
    if not module:
        raise TargetError("it names no module; expected <package>.<module>.<class>")
    if find_module(package) is None:
        raise TargetError(f"no module {module}{hint(nearest_module(module, packages))}")
    allow = f"{PLUGINS}={','.join([*packages[1:], package])}"
    raise TargetError(
        f"{package} is outside {OWN}, and no code outside {OWN} is run unless you allow its package; if you trust it, "
        f"begin the command with {allow}"
    )


def target_paths(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Every `_target_` of a configuration at any depth: its dotted key and its text."""
    pairs = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for name, item in pairs:
        path = f"{key}.{name}" if key else str(name)
        if name == "_target_":
            yield path, str(item)
        yield from target_paths(item, path)


def foreign_targets(config: Mapping[str, Any]) -> list[str]:
    """Problems of every class that a configuration may not name, each class at its first place only."""
    problems: dict[str, str] = {}
    for key, path in target_paths(config):
        try:
            require_allowed(path)
        except TargetError as error:
            problems.setdefault(path, f"{key}={path}: {error}")
    return list(problems.values())


def load_class(path: str, base: type) -> type:
    """The class at a dotted path, imported.

    Args:
        base: what it must extend.

    Raises:
        TargetError: it may not be named, is not there or is something else.
    """
    require_allowed(path)
    module, _, name = path.rpartition(".")
    found = getattr(importlib.import_module(module), name, None)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise TargetError(f"{path}: expected a class that extends {base.__module__}.{base.__qualname__}")
    return found
