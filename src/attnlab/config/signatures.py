"""Signatures and class attributes of `_target_` classes, read from their source with `ast`.

Nothing is imported, not even parent packages: the check of a task or an attention must not import torch.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import GenericAlias
from typing import Annotated, Any, Literal, Union

from attnlab.config.allowed_targets import TargetError, nearest_module, require_allowed
from attnlab.config.message_text import choice, hint
from attnlab.config.moved_targets import MOVED
from attnlab.config.parsed_module import ParsedModule, parsed_module

_PLAIN = {"int": int, "float": float, "bool": bool, "str": str, "dict": dict, "list": list, "Any": Any, "None": None}
_MOST_STEPS = 20  # aliases and base classes that are followed, so that a cycle ends


@dataclass(frozen=True)
class Argument:
    """One argument of a constructor; `annotation` is `typing.Any` if `conform` cannot check it.

    literal: whether `default` is known; a computed default is not, without an import.
    """

    annotation: Any = Any
    default: Any = None
    required: bool = True
    literal: bool = False


@dataclass(frozen=True)
class Signature:
    """Constructor arguments and literal class attributes of a class, inherited ones included.

    methods: names by defining class, in method resolution order.
    """

    path: str
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    methods: Mapping[str, frozenset[str]] = field(default_factory=dict)


def read_signature(path: str) -> Signature:
    """The signature of the class at a dotted path, such as `attnlab.tasks.scan.task.Scan`.

    Raises:
        TargetError: no such module or class, with the nearest one, or a package that is not allowed.
    """
    require_allowed(path)
    if path in MOVED:
        raise TargetError(f"the class is {MOVED[path]} now")
    return _read_signature(path)


@cache
def _read_signature(path: str) -> Signature:
    module_name, _, name = path.rpartition(".")
    module = parsed_module(module_name)
    if module is None:
        raise TargetError(f"no module {module_name}{hint(nearest_module(module_name))}")
    if name not in module.classes:
        if name in module.imports:
            source = ".".join(module.imports[name])
            raise TargetError(f"{module_name} imports {name} from elsewhere; name the module that defines it: {source}")
        raise TargetError(f"no class {name or 'named'} in {module_name}{choice(name, module.classes, 'there')}")
    lineage = _lineage(module, name, _MOST_STEPS)
    attributes: dict[str, Any] = {}
    methods = {}
    for owner, class_name in lineage:
        node = owner.classes[class_name]
        attributes = _own_attributes(node) | attributes
        own = (item.name for item in node.body if isinstance(item, ast.FunctionDef))
        methods[f"{owner.name}.{class_name}"] = frozenset(own)
    return Signature(path, _arguments(lineage), attributes, methods)


def _lineage(module: ParsedModule, name: str, depth: int) -> list[tuple[ParsedModule, str]]:
    """A class and its bases in method resolution order; bases in other packages are left out."""
    found = [(module, name)]
    for base in module.classes[name].bases if depth else ():
        base = base.value if isinstance(base, ast.Subscript) else base  # a generic class: Attention[State]
        parent = _resolve(module, base.id) if isinstance(base, ast.Name) else None
        found += [] if parent is None else _lineage(*parent, depth - 1)
    # A shared base comes after all classes that extend it.
    keys = [(owner.name, class_name) for owner, class_name in found]
    return [item for i, item in enumerate(found) if keys[i] not in keys[i + 1 :]]


def _resolve(module: ParsedModule, name: str) -> tuple[ParsedModule, str] | None:
    """Defining module and original name of a class in `module`; None for classes of other packages, such as torch."""
    for _ in range(_MOST_STEPS):
        if name in module.classes:
            return module, name
        source, name = module.imports.get(name, ("", name))
        root = source.partition(".")[0]
        if not root or root not in (module.name.partition(".")[0], "attnlab"):
            return None
        found = parsed_module(source)
        if found is None:
            return None
        module = found
    return None


def _arguments(lineage: Sequence[tuple[ParsedModule, str]]) -> dict[str, Argument]:
    """Arguments of the first constructor, with the keys of `**options: Unpack[Options]`.

    The default of such a key is its default in the next constructor. A key that a constructor fixes
    (`super().__init__(..., chunk_size=8, **options)`) is no argument.
    """
    for i, (module, name) in enumerate(lineage):
        for item in module.classes[name].body:
            if isinstance(item, ast.FunctionDef) and item.name == "__init__":
                own, inherited = _own_arguments(module, item), _arguments(lineage[i + 1 :])
                options, fixed = _options(module, item.args.kwarg), set(_passed_on(item))
                return own | {key: inherited.get(key, each) for key, each in options.items() if key not in fixed}
    return {}


def _options(module: ParsedModule, argument: ast.arg | None) -> dict[str, Argument]:
    """Keys of the TypedDict in `**options: Unpack[TypedDict]`; none for another annotation."""
    node = None if argument is None else argument.annotation
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        node = ast.parse(node.value, mode="eval").body
    match node:
        case ast.Subscript(value=ast.Name(id="Unpack") | ast.Attribute(attr="Unpack"), slice=ast.Name(id=name)):
            found = _resolve(module, name)
            lineage = reversed(_lineage(*found, _MOST_STEPS) if found else [])
            fields = [(owner, item) for owner, name in lineage for item in owner.classes[name].body]
            keys = [(owner, item, item.target) for owner, item in fields if isinstance(item, ast.AnnAssign)]
            return {
                key.id: Argument(_annotation(owner, item.annotation), required=False)
                for owner, item, key in keys
                if isinstance(key, ast.Name)
            }
    return {}


def _passed_on(init: ast.FunctionDef) -> Iterator[str | None]:
    """Names of the arguments that a constructor gives to the constructor of a base class by name."""
    for node in ast.walk(init):
        match node:
            case ast.Call(func=ast.Attribute(attr="__init__"), keywords=keywords):
                yield from (keyword.arg for keyword in keywords)


def _own_arguments(module: ParsedModule, init: ast.FunctionDef) -> dict[str, Argument]:
    positional = [*init.args.posonlyargs, *init.args.args]
    missing = [None] * (len(positional) - len(init.args.defaults))
    defaults = [*missing, *init.args.defaults, *init.args.kw_defaults]
    arguments = {}
    for argument, default in list(zip([*positional, *init.args.kwonlyargs], defaults, strict=True))[1:]:
        annotation = _annotation(module, argument.annotation)
        arguments[argument.arg] = Argument(annotation, _literal(default), default is None, _is_literal(default))
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


def _is_literal(node: ast.expr | None) -> bool:
    return _literal(node) is not None or (isinstance(node, ast.Constant) and node.value is None)


def _annotation(module: ParsedModule, node: ast.expr | None, depth: int = _MOST_STEPS) -> Any:
    """The type of an annotation; `Any` if `conform` cannot check it."""
    match node:
        case ast.Constant(value=None):
            return None
        case ast.Constant(value=str() as text):
            return _annotation(module, ast.parse(text, mode="eval").body, depth)
        case ast.Name(id=name):
            return _PLAIN[name] if name in _PLAIN else _alias(module, name, depth - 1)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            members = [_annotation(module, member, depth) for member in (left, right)]
            return Any if Any in members else Union[tuple(members)]  # noqa: UP007
        case ast.Subscript(value=ast.Name(id=name), slice=inner):
            return _subscript(module, name, inner, depth)
    return Any


def _subscript(module: ParsedModule, name: str, inner: ast.expr, depth: int) -> Any:
    match name, inner:
        case "Literal", _:
            return Literal[ast.literal_eval(inner)] if _is_literal(inner) else Any
        case "list", _:
            return GenericAlias(list, (_annotation(module, inner, depth),))
        case "dict", _:
            return dict
        case "Annotated", ast.Tuple(elts=[kind, ast.Constant(value=metadata)]):
            return Annotated[_annotation(module, kind, depth), metadata]
    return Any


def _alias(module: ParsedModule, name: str, depth: int) -> Any:
    """A type alias of this module, or of another module of attnlab (`Placement = Literal[...]`)."""
    if depth < 0:
        return Any
    if name in module.aliases:
        return _annotation(module, module.aliases[name], depth)
    source, original = module.imports.get(name, ("", name))
    if not source.startswith("attnlab."):
        return Any
    other = parsed_module(source)
    return Any if other is None else _alias(other, original, depth - 1)
