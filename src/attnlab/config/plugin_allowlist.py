"""Packages whose classes a configuration may name as `_target_`: attnlab, and those that the user allows.

A configuration can come from a stranger (the config.yaml of a run folder), and importing a module runs its code. So a
`_target_` outside attnlab is read and imported only if `ATTNLAB_PLUGINS=my_package,other` names its package; no
configuration can set this variable. Modules are found on disk without importing anything, parent packages included.
"""

import importlib
import importlib.util
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.config.dotted_keys import join
from attnlab.config.message_text import PLUGINS, UserError, hint, nearest

OWN = "attnlab"


class TargetError(UserError):
    """A `_target_` that names no class, or a class that is not allowed."""


def allowed_packages() -> list[str]:
    """attnlab and the packages that the environment variable allows."""
    words = [word.strip() for word in os.environ.get(PLUGINS, "").split(",")]
    return [OWN, *(word for word in words if word)]


def require_allowed(path: str) -> None:
    """Checks that the dotted path of a class is in an allowed package.

    Raises:
        TargetError: it is not; the message says how to allow an installed package.
    """
    packages = allowed_packages()
    if any(path.startswith(f"{package}.") for package in packages):
        return
    package, module = path.partition(".")[0], path.rpartition(".")[0]
    if not module:
        raise TargetError("it names no module; expected <package>.<module>.<class>")
    if find_module(package) is None:
        raise TargetError(f"no module {module}{hint(nearest_module(module))}")
    allow = f"{PLUGINS}={','.join([*packages[1:], package])}"
    raise TargetError(
        f"{package} is outside {OWN}, and no code outside {OWN} is run unless you allow its package; if you trust it, "
        f"begin the command with {allow}"
    )


def foreign_targets(config: Mapping[str, Any]) -> list[str]:
    """Problems of all `_target_` classes that are not allowed; each class is reported once."""
    problems: dict[str, str] = {}
    for key, path in _target_paths(config):
        try:
            require_allowed(path)
        except TargetError as error:
            problems.setdefault(path, f"{key}={path}: {error}")
    return list(problems.values())


def _target_paths(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Dotted key and text of every `_target_` of a configuration, at any depth."""
    pairs = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for name, item in pairs:
        path = join(key, str(name))
        if name == "_target_":
            yield path, str(item)
        yield from _target_paths(item, path)


def load_class(path: str, base: type) -> type:
    """Imports the class at a dotted path.

    Args:
        base: the class that it must extend.

    Raises:
        TargetError: it is not allowed, does not exist or extends something else.
    """
    require_allowed(path)
    module, _, name = path.rpartition(".")
    found = getattr(importlib.import_module(module), name, None)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise TargetError(f"{path}: expected a class that extends {base.__module__}.{base.__qualname__}")
    return found


@dataclass(frozen=True)
class ModuleFiles:
    """A module or package on disk.

    source:  its Python file; None for a folder without `__init__.py` and for compiled modules.
    folders: the folders with its submodules; empty if it is no package.
    """

    source: Path | None
    folders: tuple[Path, ...] = ()


def find_module(name: str) -> ModuleFiles | None:
    """The files of the module with a dotted name, or None; unlike `importlib.util.find_spec`, no parent is imported."""
    first, *rest = name.split(".")
    found = _find_top(first)
    for part in rest:
        found = None if found is None else _find_inside(found.folders, part)
    return found


def _find_top(name: str) -> ModuleFiles | None:
    try:
        spec = importlib.util.find_spec(name) if name.isidentifier() else None
    except ValueError:
        # A module in sys.modules without a spec, such as __main__.
        return None
    if spec is None:
        return None
    source = spec.origin if spec.origin is not None and spec.origin.endswith(".py") else None
    return ModuleFiles(source and Path(source), tuple(map(Path, spec.submodule_search_locations or ())))


def _find_inside(folders: Iterable[Path], name: str) -> ModuleFiles | None:
    """A submodule. Python's finders need the imported parent for a folder without `__init__.py`."""
    if not name.isidentifier():
        return None
    for folder in folders:
        if (source := folder / name / "__init__.py").is_file():
            return ModuleFiles(source, (folder / name,))
        if (source := folder / f"{name}.py").is_file():
            return ModuleFiles(source)
    packages = tuple(folder / name for folder in folders if (folder / name).is_dir())
    return ModuleFiles(None, packages) if packages else None


def nearest_module(name: str) -> str | None:
    """The module nearest to a name that does not exist: correct up to its first wrong part."""
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        known = ".".join(parts[:end])
        if (package := find_module(known)) is not None:
            found = nearest(parts[end], _submodules(package))
            return f"{known}.{found}" if found else None
    return nearest(parts[0], allowed_packages())


def _submodules(package: ModuleFiles) -> list[str]:
    paths = [path for folder in package.folders if folder.is_dir() for path in sorted(folder.iterdir())]
    return [path.stem for path in paths if path.suffix == ".py" or (path.is_dir() and path.name.isidentifier())]
