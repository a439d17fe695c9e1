"""Type checker of plain values: for the schema, for the annotations of `_target_` classes and for records in files.

Types: int, float (whole numbers included), bool, str, None, Literal, unions, list[X], dict, nested dataclasses and
`Annotated[int, "[1, inf)"]`, an interval (`config.validation.ranges`); in records of files also `Integral` and `Real`,
numbers of any size, and tuple[X, Y], a list of that length. Anything else is not checked.
"""

import dataclasses
import json
import types
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from attnlab.config.dotted_keys import join
from attnlab.config.message_text import MOST_OFFERED, hint, offered, show
from attnlab.config.nearest_word import key_called, nearest, nearest_key
from attnlab.config.problem import Problem
from attnlab.config.validation.ranges import Interval, interval

if TYPE_CHECKING:
    # type checkers know no number that is an Integral or a Real
    Integral: TypeAlias = int
    Real: TypeAlias = float
else:
    from numbers import Integral, Real

T = TypeVar("T")
_NUMBERS = {int: "a whole number", float: "a number", Integral: "a whole number", Real: "a number"}
_NAMES = {**_NUMBERS, bool: "true or false", str: "text", dict: "key: value pairs"}


class Record:
    """Base of dataclasses for the content of a file: unknown keys are allowed, and left out."""


def conform(value: Any, kind: Any, key: str) -> list[Problem]:
    """Problems of a value at a dotted key, sentences with key, value and what is allowed; empty if it fits."""
    return [problem for misfit in _misfits(value, kind, key) for problem in _problems(*misfit)]


def record_problem(content: Any, kind: type[Record]) -> str | None:
    """First difference between the content of a file and a record, as `rows.0.name: missing`; None if it fits."""
    for key, value, expected in _misfits(content, kind, ""):
        if value is dataclasses.MISSING:
            return f"{key}: missing"
        if dataclasses.is_dataclass(expected):
            return f"{key or 'the file'}: expected an object"
        if get_origin(expected) is list:
            return f"{key}: expected a list"
        return f"{key}: expected {describe(expected)}, found {json.dumps(value, default=str)[:60]}"
    return None


def _misfits(value: Any, kind: Any, key: str) -> Iterator[tuple[str, Any, Any]]:
    """Every misfit of a value: its key, the wrong value (`MISSING` for none) and the expected type."""
    section: Any = section_of(kind)
    if section is not None and isinstance(value, Mapping):
        if not issubclass(section, Record) and not value.keys() <= hints(section).keys():
            yield key, value, section
        for field in dataclasses.fields(section):
            path, expected = join(key, field.name), hints(section)[field.name]
            if field.name in value:
                yield from _misfits(value[field.name], expected, path)
            elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
                yield path, dataclasses.MISSING, expected
    elif (each := item_type(kind)) is not None and isinstance(value, list):
        for at, item in enumerate(value):
            yield from _misfits(item, each, join(key, str(at)))
    elif not accepts(value, kind):
        yield key, value, kind


def _problems(key: str, value: Any, kind: Any) -> list[Problem]:
    """Messages for one misfit of a configuration."""
    if value is dataclasses.MISSING:
        return [Problem(key, f": missing; expected {describe(kind)}")]
    if not dataclasses.is_dataclass(kind):
        shown = f'"{show(value)}"' if _is_quoted(value) else show(value)
        return [Problem(key, f"={shown}: expected {describe(kind)}{_advice(value, kind)}")]
    if isinstance(value, Mapping):
        return unknown_keys(value, hints(kind), key)
    return [not_a_section(value, key, list(hints(kind)))]


def _members(kind: Any) -> tuple[Any, ...]:
    """The types of a union; any other type alone."""
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def section_of(kind: Any) -> type[Any] | None:
    """The dataclass in a type such as `Section` or `Section | None`; None without one."""
    return next((cast(type, member) for member in _members(kind) if dataclasses.is_dataclass(member)), None)


def item_type(kind: Any) -> Any | None:
    """The type of items in a type such as `list[Item]` or `list[Item] | None`; None without a list."""
    return next((get_args(member)[0] for member in _members(kind) if get_origin(member) is list), None)


def not_a_section(value: Any, key: str, names: Sequence[str]) -> Problem:
    """The problem of a value in the position of a section."""
    return Problem(key, f"={show(value)}: {key} is a section, not a value; set one of its keys: {offered(names)}")


def unknown_keys(value: Mapping[str, Any], allowed: Collection[str], key: str) -> list[Problem]:
    """Problems of the keys of a section that are not allowed."""
    paths = [join(key, name) for name in allowed]
    unknown = {join(key, str(name)): item for name, item in value.items() if name not in allowed}
    near = {path: key_called(path) or nearest_key(path, paths) for path in unknown}
    return [
        Problem(path, f"={show(item)}: unknown key{hint(near[path])}; allowed here: {offered(allowed)}")
        for path, item in unknown.items()
    ]


def hints(kind: Any) -> dict[str, Any]:
    """Field types of a dataclass, intervals included."""
    return _hints(kind)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def accepts(value: Any, kind: Any) -> bool:  # noqa: PLR0911
    """Whether a value fits a type; sections and items of lists are checked by `conform`."""
    if kind in _NUMBERS or get_origin(kind) is Annotated:
        fits = isinstance(value, (int, *_leaves(kind))) and not isinstance(value, bool)
        return fits and all(value in each for each in _intervals(kind))
    if kind in (bool, str, dict):
        return isinstance(value, kind)
    if kind in (None, type(None)):
        return value is None
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return any(value == choice and type(value) is type(choice) for choice in arguments)
    if origin in (Union, types.UnionType):
        return any(_fits(value, member) for member in arguments)
    if origin is tuple:
        fits = isinstance(value, list) and len(value) == len(arguments)
        return fits and all(_fits(item, member) for item, member in zip(value, arguments, strict=True))
    if origin in (list, dict):
        return isinstance(value, origin)
    return not dataclasses.is_dataclass(kind)


def _fits(value: Any, kind: Any) -> bool:
    return next(_misfits(value, kind, ""), None) is None


def _intervals(kind: Any) -> Iterator[Interval]:
    """The intervals of a type of numbers; of a union, the intervals of all its members."""
    for member in _members(kind):
        if member in (int, float):
            yield interval(member)
        elif get_origin(member) is Annotated:
            yield from (interval(get_args(member)[0], text) for text in get_args(member)[1:] if isinstance(text, str))


def describe(kind: Any, most: int = MOST_OFFERED) -> str:  # noqa: PLR0911
    """A type in words, with so many of its choices."""
    if kind in (None, type(None)):
        return "null"
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        choices = [show(choice) for choice in arguments]
        return choices[0] if len(choices) == 1 else f"one of {offered(choices, most=most)}"
    if origin in (Union, types.UnionType):
        return " or ".join(describe(member, most) for member in arguments)
    if origin is Annotated:
        return describe(arguments[0], most) + "".join(map(str, _intervals(kind)))
    if origin is list:
        return f"a list, each {describe(arguments[0], most)}"
    if origin is tuple:
        return f"[{', '.join(describe(member, most) for member in arguments)}]"
    if dataclasses.is_dataclass(kind):
        return f"key: value pairs of {offered(hints(kind), most=most)}"
    return _NAMES.get(origin or kind, "any value")


def _advice(value: Any, kind: Any) -> str:
    """Advice for a wrong value: the nearest word, no quotes around a number, a float (1e5) as whole number, or why a
    number is too large."""
    leaves = list(_leaves(kind))
    if _is_quoted(value):
        return f"; this is text, write {value} without quotes" if _fits(_unquoted(value), kind) else "; this is text"
    if isinstance(value, str):
        words = [choice for leaf in leaves if get_origin(leaf) is Literal for choice in get_args(leaf)]
        return hint(nearest(value, [str(word) for word in words]))
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return ""
    if slip := next(filter(None, (each.slip(value) for each in _intervals(kind))), ""):
        return f"; {slip}"
    whole = int in leaves and isinstance(value, float) and value.is_integer() and accepts(int(value), kind)
    return f"; write {int(value)}" if whole else ""


def _is_quoted(value: Any) -> bool:
    """Whether a value is text that without quotes would be none: a number, a list, true, false or null."""
    return isinstance(value, str) and not isinstance(_unquoted(value), str)


def _unquoted(text: str) -> Any:
    """What a text is without quotes; the text itself if that is text, too."""
    for read in (json.loads, float):
        # a text of many brackets is nested too deep
        with suppress(ValueError, RecursionError):
            return read(text)
    return text


def _leaves(kind: Any) -> list[Any]:
    return [get_args(member)[0] if get_origin(member) is Annotated else member for member in _members(kind)]


def build(kind: type[T], value: Mapping[str, Any]) -> T:
    """The dataclass object of a checked plain dict."""
    known = value.keys() & hints(kind).keys() if issubclass(kind, Record) else value
    return kind(**{name: _build(hints(kind)[name], value[name]) for name in known})


def _build(kind: Any, value: Any) -> Any:
    if value is None:
        return None
    section = section_of(kind)
    if section is not None:
        return build(section, value)
    if isinstance(value, list) and (each := item_type(kind)) is not None:
        return [_build(each, item) for item in value]
    if float in _leaves(kind) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value
