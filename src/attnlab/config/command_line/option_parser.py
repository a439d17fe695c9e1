"""Reader of a command's options, words `key=value`, into a dataclass with a field for each option.

A field has a type, checked by `type_check`: text, a path, a choice (`Literal`), a whole number with its interval, or a
list of texts or choices, separated by commas. The docstring under a field is its line in --help. Its metadata may hold
`key`, if the key is not the field's name; `path` of a text that is a path or a glob; `value`, shown after the `=` in
messages and --help; and `missing`, the value that a message asks for, which makes the option a required one.
"""

import ast
import inspect
import textwrap
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Generic, TypeVar, cast, get_args, get_origin

from attnlab.config.message_text import hint, listed
from attnlab.config.nearest_word import nearest
from attnlab.config.problem import Problem
from attnlab.config.user_path import expanded, path_problem
from attnlab.config.validation.type_check import conform, hints, item_type

_WIDTH = 120


class CommandOptions:
    """Base of the options of a command."""

    def problems(self) -> Iterable[Problem]:
        """Problems that the types of single fields do not cover."""
        return ()


T = TypeVar("T", bound=CommandOptions)


@dataclass
class CommandLine(Generic[T]):
    """A command line as read.

    options:  None where a required one is missing; an option with a problem has its default.
    words:    `key=value` of the options, as written.
    others:   words that are no option of the command.
    problems: one for each option that is wrong.
    """

    options: T | None = None
    words: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def complete(self) -> T:
        """The options of a command line without problems.

        Raises:
            ValueError: a required option is missing.
        """
        if self.options is None:
            raise ValueError("; ".join(self.problems))
        return self.options


def read_options(kind: type[T], argv: Sequence[str], corrections: Mapping[str, str] | None = None) -> CommandLine[T]:
    """Reads the words of a command line.

    Args:
        kind: the options of the command.
        corrections: words that lack their key, each with the right word.
    """
    line, by_key, corrections = CommandLine[T](), _by_key(kind), corrections or {}
    values: dict[str, Any] = {}
    line.problems += [Problem(word, f": write {right}") for word, right in corrections.items()]
    for word in (word for word in argv if word not in corrections):
        key, equals, text = word.partition("=")
        option = by_key.get(key)
        if option is None:
            line.others.append(word)
        elif not text:
            empty = "empty; " if equals else ""
            expected = option.metadata.get("value", "value")
            line.problems.append(Problem(word, f": {empty}expected {key}={expected}"))
        elif any(other.startswith(f"{key}=") for other in line.words):
            line.problems.append(Problem(key, ": given twice"))
        else:
            line.words.append(word)
            is_path = option.metadata.get("path", False)
            value, problems = _path(key, text) if is_path else _value(hints(kind)[option.name], key, text)
            line.problems += problems
            values |= {} if problems else {option.name: value}
    required = {key: option for key, option in by_key.items() if "missing" in option.metadata}
    absent = [key for key in required if not corrections and key not in {word.partition("=")[0] for word in argv}]
    line.problems += [Problem(key, f": missing; give {key}={required[key].metadata['missing']}") for key in absent]
    if all(option.name in values for option in required.values()):
        line.options = kind(**values)
        line.problems += line.options.problems()
    return line


def unknown_options(kind: type[CommandOptions], words: Iterable[str], others: Sequence[str] = ()) -> list[Problem]:
    """Problems of words that are no option of a command.

    Args:
        others: keys that the command takes besides its options.
    """
    keys = list(_by_key(kind))
    allowed = listed((*keys, *others))
    unknown = (word.partition("=")[0] for word in words)
    return [Problem(key, f": unknown key{hint(nearest(key, keys))}; allowed: {allowed}") for key in unknown]


def options_help(kind: type[CommandOptions], indent: int) -> str:
    """The options of a command and their meanings, for --help.

    Args:
        indent: where the meanings begin.
    """
    # hashable as every class; mypy looks at the method of its objects
    meanings = field_docstrings(cast(Hashable, kind))
    lines = []
    for key, option in _by_key(kind).items():
        start = f"  {key}={option.metadata.get('value', '...')}  ".ljust(indent)
        lines.append(textwrap.fill(meanings[option.name], _WIDTH, initial_indent=start, subsequent_indent=" " * indent))
    return "\n".join(lines)


@cache
def field_docstrings(kind: Any) -> dict[str, str]:
    """The text under each field of a class."""
    (definition,) = ast.parse(inspect.getsource(kind)).body
    docstrings = {}
    for item, following in pairwise(cast(ast.ClassDef, definition).body):
        match item, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str() as text)):
                docstrings[name] = " ".join(text.split())
    return docstrings


def _by_key(kind: type[CommandOptions]) -> dict[str, Any]:
    # all of them are dataclasses
    return {option.metadata.get("key", option.name): option for option in fields(cast(Any, kind))}


def _path(key: str, text: str) -> tuple[str, Sequence[Problem]]:
    path = expanded(text)
    problem = path_problem(key, path)
    return path, [] if problem is None else [problem]


def _value(kind: Any, key: str, text: str) -> tuple[Any, Sequence[Problem]]:
    """The value that a text means for a type, and its problems."""
    if NoneType in get_args(kind):
        (kind,) = set(get_args(kind)) - {NoneType}
    each = item_type(kind)
    if kind is Path:
        path, problems = _path(key, text)
        return Path(path), problems
    if each is None:
        value = int(text) if get_origin(kind) is Annotated and text.isdecimal() else text
        return value, conform(value, kind, key)
    values = list(filter(None, text.split(",")))
    problems = [problem for value in values for problem in conform(value, each, key)]
    twice = dict.fromkeys(value for i, value in enumerate(values) if value in values[:i])
    return values, problems + [Problem(key, f"={text}: {value} comes twice") for value in twice]
