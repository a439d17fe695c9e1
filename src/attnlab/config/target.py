"""Signatures and class attributes of `_target_` classes, read from their source with `ast`.

Nothing is imported, not even parent packages: a task or an attention may need torch, its check must not.
"""

import ast
import importlib.machinery
import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union

from attnlab.config.words import choice, hint, nearest

_PLAIN = {"int": int, "float": float, "bool": bool, "str": str, "dict": dict, "list": list, "Any": Any, "None": None}
_FOREVER = 20  # aliases and base classes followed, so that a cycle ends


class TargetError(Exception):
    """A `_target_` that names no class."""


@dataclass(frozen=True)
class Argument:
    """One argument of a constructor; `annotation` is `typing.Any` where it is none that `conform` checks."""

    annotation: Any = Any
    default: Any = None
    required: bool = True


@dataclass(frozen=True)
class Signature:
    """What a class says of itself: constructor arguments and literal class attributes, inherited ones included."""

    path: str
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Module:
    name: str
    is_package: bool
    classes: Mapping[str, ast.ClassDef]
    aliases: Mapping[str, ast.expr]
    imports: Mapping[str, tuple[str, str]]


@cache
def read_signature(path: str) -> Signature:
    """The signature of the class at a dotted path, such as `attnlab.tasks.scan.Scan`.

    Raises:
        TargetError: no such module or class; names the nearest class.
    """
    module_name, _, name = path.rpartition(".")
    module = _module(module_name)
    if module is None:
        raise TargetError(f"no module {module_name}{hint(_nearest_module(module_name))}")
    if name not in module.classes:
        raise TargetError(f"no class {name} in {module_name}{choice(name, module.classes, 'there')}")
    arguments, attributes = _read_class(module, name, _FOREVER)
    return Signature(path, arguments or {}, attributes)


def _read_class(module: _Module, name: str, depth: int) -> tuple[dict[str, Argument] | None, dict[str, Any]]:
    """Own constructor and attributes before inherited ones; bases left to right, as far as their source is ours."""
    node = module.classes[name]
    arguments, attributes = _own_arguments(module, node), _own_attributes(node)
    for base in node.bases:
        found = _resolve(module, base.id) if isinstance(base, ast.Name) else None
        if found is None or depth == 0:
            continue
        base_arguments, base_attributes = _read_class(*found, depth - 1)
        arguments = base_arguments if arguments is None else arguments
        attributes = base_attributes | attributes
    return arguments, attributes


def _resolve(module: _Module, name: str) -> tuple[_Module, str] | None:
    """Module and name of a class that `name` means in `module`; other projects' classes (torch's) are not followed."""
    for _ in range(_FOREVER):
        if name in module.classes:
            return module, name
        source, name = module.imports.get(name, ("", name))
        root = source.partition(".")[0]
        if not root or root not in (module.name.partition(".")[0], "attnlab"):
            return None
        found = _module(source)
        if found is None:
            return None
        module = found
    return None


def _own_arguments(module: _Module, node: ast.ClassDef) -> dict[str, Argument] | None:
    init = next((item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"), None)
    if init is None:
        return None
    positional = [*init.args.posonlyargs, *init.args.args]
    missing = [None] * (len(positional) - len(init.args.defaults))
    pairs = zip(
        [*positional, *init.args.kwonlyargs], [*missing, *init.args.defaults, *init.args.kw_defaults], strict=True
    )
    arguments = {}
    for argument, default in list(pairs)[1:]:
        annotation = _annotation(module, argument.annotation)
        arguments[argument.arg] = Argument(annotation, _literal(default), default is None)
    return arguments


def _own_attributes(node: ast.ClassDef) -> dict[str, Any]:
    attributes = {}
    for item in node.body:
        match item:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                attributes[name] = _literal(value)
    return attributes


def _literal(node: ast.expr | None) -> Any:
    """The value of a literal; None for anything else."""
    try:
        return None if node is None else ast.literal_eval(node)
    except ValueError:
        return None


def _annotation(module: _Module, node: ast.expr | None, depth: int = _FOREVER) -> Any:
    """The type an annotation means, `Any` for what `conform` cannot check."""
    match node:
        case ast.Constant(value=None):
            return None
        case ast.Constant(value=str() as text):
            return _annotation(module, ast.parse(text, mode="eval").body, depth)
        case ast.Name(id=name):
            return _PLAIN[name] if name in _PLAIN else _alias(module, name, depth - 1)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _union(_annotation(module, left, depth), _annotation(module, right, depth))
        case ast.Subscript(value=ast.Name(id=name), slice=inner):
            return _subscript(module, name, inner, depth)
    return Any


def _subscript(module: _Module, name: str, inner: ast.expr, depth: int) -> Any:
    match name, inner:
        case "Literal", _:
            return Literal[ast.literal_eval(inner)]
        case "list", _:
            return list[_annotation(module, inner, depth)]
        case "dict", _:
            return dict
        case "Annotated", ast.Tuple(elts=[kind, ast.Constant(value=metadata)]):
            return Annotated[_annotation(module, kind, depth), metadata]
    return Any


def _union(left: Any, right: Any) -> Any:
    return Any if Any in (left, right) else Union[left, right]  # noqa: UP007


def _alias(module: _Module, name: str, depth: int) -> Any:
    """A type alias of this module or imported from another of ours (`Placement = Literal[...]`)."""
    if depth < 0:
        return Any
    if name in module.aliases:
        return _annotation(module, module.aliases[name], depth)
    source, original = module.imports.get(name, ("", name))
    if not source.startswith("attnlab."):
        return Any
    other = _module(source)
    return Any if other is None else _alias(other, original, depth - 1)


@cache
def _module(name: str) -> _Module | None:
    spec = _find(name)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    is_package = spec.submodule_search_locations is not None
    package = name if is_package else name.rpartition(".")[0]
    classes, aliases, imports = {}, {}, {}
    for node in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body:
        match node:
            case ast.ClassDef():
                classes[node.name] = node
            case ast.Assign(targets=[ast.Name(id=alias)], value=value):
                aliases[alias] = value
            case ast.ImportFrom():
                source = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
                imports |= {item.asname or item.name: (source, item.name) for item in node.names}
    return _Module(name, is_package, classes, aliases, imports)


def _find(name: str) -> importlib.machinery.ModuleSpec | None:
    """The spec of a module without importing its parents, which `importlib.util.find_spec` would do."""
    first, *rest = name.split(".")
    try:
        spec = importlib.util.find_spec(first) if first else None
    except ValueError:
        # A module in sys.modules without a spec, such as __main__.
        return None
    for end, _ in enumerate(rest, start=2):
        if spec is None or spec.submodule_search_locations is None:
            return None
        full = ".".join(name.split(".")[:end])
        spec = importlib.machinery.PathFinder.find_spec(full, list(spec.submodule_search_locations))
    return spec


def _nearest_module(name: str) -> str | None:
    parent, _, last = name.rpartition(".")
    spec = _find(parent) if parent else None
    if spec is None:
        return nearest(last, sys.modules) if not parent else None
    folders = map(Path, spec.submodule_search_locations or [])
    found = nearest(last, (file.stem for folder in folders for file in sorted(folder.glob("*.py"))))
    return f"{parent}.{found}" if found else None
