"""Does a plain value fit a type? One checker for the schema and for the annotations of `_target_` classes.

Types: int, float (takes whole numbers too), bool, str, None, Literal, unions, list[X], dict, nested dataclasses and
`Annotated[int, "[1, inf)"]`, an interval in mathematical notation. Anything else is not checked.
"""

import dataclasses
import math
import re
import types
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from attnlab.config.words import braced, hint, listed, nearest, nearest_key, show

T = TypeVar("T")
_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "text", dict: "key: value pairs"}


def conform(value: Any, kind: Any, key: str) -> list[str]:
    """Problems of a value at a dotted key: sentences that name key, value and what is allowed; empty when it fits."""
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _conform_dataclass(value, kind, key)
    if isinstance(value, Mapping) and (section := section_of(kind)) is not None:
        return _conform_dataclass(value, section, key)
    if get_origin(kind) is list and isinstance(value, list):
        (item_kind,) = get_args(kind)
        return [problem for i, item in enumerate(value) for problem in conform(item, item_kind, f"{key}.{i}")]
    if accepts(value, kind):
        return []
    return [f"{key}={show(value)}: expected {describe(kind)}{_advice(value, kind)}"]


def _conform_dataclass(value: Any, kind: type, key: str) -> list[str]:
    if not isinstance(value, Mapping):
        return [not_a_section(value, key, list(hints(kind)))]
    problems = unknown_keys(value, hints(kind), key)
    for field in dataclasses.fields(kind):
        path, kind_of_field = join(key, field.name), hints(kind)[field.name]
        if field.name in value:
            problems += conform(value[field.name], kind_of_field, path)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            problems.append(f"{path}: missing; expected {describe(kind_of_field)}")
    return problems


def section_of(kind: Any) -> type | None:
    """The dataclass of a type such as `Section` or `Section | None`, so that problems name the section's own keys."""
    members = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    return next((member for member in members if dataclasses.is_dataclass(member)), None)


def not_a_section(value: Any, key: str, names: Sequence[str]) -> str:
    """The problem of a value where a section belongs."""
    return f"{key}={show(value)}: {key} is a section, not a value; set one of its keys: {listed(names)}"


def unknown_keys(value: Mapping[str, Any], allowed: Collection[str], key: str) -> list[str]:
    """Problems of the keys of a section that are none of those allowed."""
    paths = [join(key, name) for name in allowed]
    unknown = {join(key, str(name)): item for name, item in value.items() if name not in allowed}
    return [
        f"{path}={show(item)}: unknown key{hint(nearest_key(path, paths))}; allowed here: {listed(allowed)}"
        for path, item in unknown.items()
    ]


def join(key: str, name: str) -> str:
    """A dotted key one level deeper."""
    return f"{key}.{name}" if key else name


@cache
def hints(kind: type) -> dict[str, Any]:
    """Field types of a dataclass, intervals included."""
    return get_type_hints(kind, include_extras=True)


def accepts(value: Any, kind: Any) -> bool:  # noqa: PLR0911
    """Whether a value without parts of its own fits a type."""
    if kind in (int, float):
        return isinstance(value, (int, kind)) and not isinstance(value, bool) and not math.isnan(value)
    if kind in (bool, str, dict):
        return isinstance(value, kind)
    if kind in (None, type(None)):
        return value is None
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return any(value == choice and type(value) is type(choice) for choice in arguments)
    if origin in (Union, types.UnionType):
        return any(not conform(value, member, "") for member in arguments)
    if origin is Annotated:
        return accepts(value, arguments[0]) and all(_contains(interval, value) for interval in arguments[1:])
    if origin in (list, dict):
        return isinstance(value, origin)
    return True


@cache
def _interval(text: str) -> tuple[str, float, float, str]:
    match = re.fullmatch(r"([\[(])\s*(\S+)\s*,\s*(\S+?)\s*([\])])", text)
    if match is None:
        raise ValueError(f"not an interval: {text!r}")
    return match[1], float(match[2]), float(match[3]), match[4]


def _contains(interval: Any, value: float) -> bool:
    if not isinstance(interval, str):
        return True
    opening, low, high, closing = _interval(interval)
    above = value >= low if opening == "[" else value > low
    return above and (value <= high if closing == "]" else value < high)


def describe(kind: Any) -> str:  # noqa: PLR0911
    """A type in words."""
    if kind in (None, type(None)):
        return "null"
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        choices = [show(choice) for choice in arguments]
        return choices[0] if len(choices) == 1 else f"one of {listed(braced(choices))}"
    if origin in (Union, types.UnionType):
        return " or ".join(describe(member) for member in arguments)
    if origin is Annotated:
        return describe(arguments[0]) + "".join(_describe_interval(item) for item in arguments[1:])
    if origin is list:
        return f"a list, each {describe(arguments[0])}"
    if dataclasses.is_dataclass(kind):
        return f"key: value pairs of {listed(hints(kind))}"
    return _NAMES.get(origin or kind, "any value")


def _describe_interval(interval: Any) -> str:
    if not isinstance(interval, str):
        return ""
    opening, low, high, closing = _interval(interval)
    bounds = [f"{'>=' if opening == '[' else '>'} {low:.10g}"] if low > -math.inf else []
    bounds += [f"{'<=' if closing == ']' else '<'} {high:.10g}"] if high < math.inf else []
    return " " + " and ".join(bounds) if bounds else ""


def _advice(value: Any, kind: Any) -> str:
    """The nearest allowed word, or a whole number for one written as a float (1e5)."""
    leaves = list(_leaves(kind))
    if isinstance(value, str):
        words = [choice for leaf in leaves if get_origin(leaf) is Literal for choice in get_args(leaf)]
        return hint(nearest(value, [str(word) for word in words]))
    if isinstance(value, float) and value.is_integer() and int in leaves:
        return f"; write {int(value)}"
    return ""


def _leaves(kind: Any) -> list[Any]:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return [leaf for member in get_args(kind) for leaf in _leaves(member)]
    return _leaves(get_args(kind)[0]) if origin is Annotated else [kind]


def build(kind: type[T], value: Mapping[str, Any]) -> T:
    """The dataclass object of a checked plain dict."""
    return kind(**{name: _build(hints(kind)[name], item) for name, item in value.items()})


def _build(kind: Any, value: Any) -> Any:
    if value is None:
        return None
    section = section_of(kind)
    if section is not None:
        return build(section, value)
    if get_origin(kind) is list:
        return [_build(get_args(kind)[0], item) for item in value]
    if float in _leaves(kind) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value
