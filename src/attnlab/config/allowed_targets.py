"""Packages whose classes a configuration may name as `_target_`: attnlab, and those that the user allows.

A configuration can come from a stranger (the config.yaml of a run folder), and importing a module runs its code. So a
`_target_` outside attnlab is imported only if `ATTNLAB_PLUGINS=my_package,other` names its package; no
configuration can set this variable. Modules are found on disk without importing anything, parent packages included.
"""

import importlib
import importlib.util
import os
from collections.abc import Iterator, Mapping
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from attnlab.config.dotted_keys import join
from attnlab.config.message_text import PLUGINS, choice, first_line, hint
from attnlab.config.nearest_word import nearest
from attnlab.config.problem import Problem
from attnlab.config.user_error import UserError

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


def foreign_targets(config: Mapping[str, Any]) -> list[Problem]:
    """Problems of all `_target_` classes that are not allowed; each class is reported once."""
    problems: dict[str, Problem] = {}
    for key, path in _target_paths(config):
        try:
            require_allowed(path)
        except TargetError as error:
            problems.setdefault(path, Problem(key, f"={path}: {error}"))
    return list(problems.values())


def _target_paths(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Dotted key and text of every `_target_` of a configuration, at any depth."""
    pairs = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for name, item in pairs:
        path = join(key, str(name))
        if name == "_target_":
            yield path, str(item)
        yield from _target_paths(item, path)


def class_at(path: str) -> type:
    """Imports the class at a dotted path, if its package is allowed.

    Raises:
        TargetError: no such module or class, with the nearest one, or a package that is not allowed.
    """
    require_allowed(path)
    module_name, _, name = path.rpartition(".")
    if find_module(module_name) is None:
        raise TargetError(f"no module {module_name}{hint(nearest_module(module_name))}")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever the user's own module raises
        raise TargetError(f"{module_name} cannot be imported: {type(error).__name__}: {first_line(error)}") from error
    cls = vars(module).get(name)
    if not isinstance(cls, type):
        types = [(word, item) for word, item in vars(module).items() if isinstance(item, type)]
        classes = [word for word, item in types if item.__module__ == module_name]
        raise TargetError(f"no class {name or 'named'} in {module_name}{choice(name, classes, 'there')}")
    if cls.__module__ != module_name:
        source = f"{cls.__module__}.{cls.__qualname__}"
        raise TargetError(f"{module_name} imports {name} from elsewhere; name the module that defines it: {source}")
    return cls


def load_class(path: str, base: type) -> type:
    """Imports the class at a dotted path.

    Args:
        base: the class that it must extend.

    Raises:
        TargetError: as `class_at`, or it extends something else.
    """
    cls = class_at(path)
    if not issubclass(cls, base):
        raise TargetError(f"expected a class that extends {base.__module__}.{base.__qualname__}, not {cls.__name__}")
    return cls


def find_module(name: str) -> ModuleSpec | None:
    """The spec of the module with a dotted name, or None; unlike `importlib.util.find_spec`, no parent is imported."""
    first, *rest = name.split(".")
    try:
        spec = importlib.util.find_spec(first) if first.isidentifier() else None
    except ValueError:
        # A module in sys.modules without a spec, such as __main__.
        return None
    for part in rest:
        folders = None if spec is None else spec.submodule_search_locations
        # Searched as a module without parents, because Python's finder would want them imported.
        spec = PathFinder.find_spec(part, list(folders)) if folders and part.isidentifier() else None
    return spec


def nearest_module(name: str) -> str | None:
    """The module nearest to a name that does not exist: correct up to its first wrong part."""
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        known = ".".join(parts[:end])
        if (package := find_module(known)) is not None:
            found = nearest(parts[end], _submodules(package))
            return f"{known}.{found}" if found else None
    return nearest(parts[0], allowed_packages())


def _submodules(package: ModuleSpec) -> list[str]:
    folders = filter(Path.is_dir, map(Path, package.submodule_search_locations or ()))
    paths = [path for folder in folders for path in sorted(folder.iterdir())]
    return [path.stem for path in paths if path.suffix == ".py" or (path.is_dir() and path.name.isidentifier())]
