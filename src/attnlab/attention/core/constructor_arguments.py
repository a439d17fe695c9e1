"""Arguments of a mechanism's constructor: their names, and the check of their values by the annotations.

The configuration check reads the same annotations, without an import (`config.signatures`).
"""

import inspect
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, wraps
from typing import Any, Unpack, get_args, get_origin, get_type_hints

import numpy as np

from attnlab.config.message_text import hint, listed, show
from attnlab.config.nearest_word import nearest
from attnlab.config.type_check import conform, section_of


def check_when_made(mechanism: Any) -> None:
    """Makes the constructor of a class check its arguments; within that of a subclass it checks nothing."""
    construct = mechanism.__init__

    @wraps(construct)
    def checked(self: Any, *args: Any, **options: Any) -> None:
        if type(self) is mechanism:
            _require_fitting(mechanism, args, options)
        construct(self, *args, **options)

    mechanism.__init__ = checked


def accepted_arguments(mechanism: type) -> frozenset[str]:
    """Names of the arguments that a constructor takes, with the keys of `**options: Unpack[Options]`."""
    return _accepted(mechanism)[0]


@cache
def _accepted(mechanism: Any) -> tuple[frozenset[str], bool]:
    """The accepted names, and whether the constructor takes other options too: by `**options` without their names."""
    names: set[str] = set()
    others = False
    for parameter in inspect.signature(mechanism).parameters.values():
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            names.add(parameter.name)
            continue
        hints = {} if parameter.annotation is parameter.empty else get_type_hints(mechanism.__init__)
        options = hints.get(parameter.name)
        others = get_origin(options) is not Unpack
        names |= set() if others else get_type_hints(*get_args(options)).keys()
    return frozenset(names), others


def _require_fitting(mechanism: type, args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
    """Checks arguments by the annotations of the constructors of a class and of its bases.

    Raises:
        TypeError: an option that the constructor does not take.
        ValueError: a value that does not fit its annotation.
    """
    names, others = _accepted(mechanism)
    for name in () if others else options.keys() - names:
        near = hint(nearest(name, names))
        raise TypeError(f"{mechanism.__name__} has no argument {name}{near}; its arguments: {listed(sorted(names))}")
    by_position = [
        p.name for p in inspect.signature(mechanism).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD
    ]
    for name, value in {**dict(zip(by_position, args, strict=False)), **options}.items():
        for kind in _annotations(mechanism).get(name, ()):
            if problem := _problem(name, value, kind):
                raise ValueError(f"{mechanism.__name__}: {problem}")


@cache
def _annotations(mechanism: Any) -> dict[str, list[Any]]:
    """The annotations of each argument in the constructors of a class and of its bases; unknown names are left out."""
    found: dict[str, list[Any]] = {}
    for level in mechanism.__mro__:
        with suppress(NameError):
            for name, kind in get_type_hints(level.__init__, include_extras=True).items():
                found.setdefault(name, []).append(kind)
    return found


def _problem(name: str, value: Any, kind: Any) -> str | None:
    """What is wrong with a value; None if it fits."""
    if section := section_of(kind):
        fits = value is None or isinstance(value, section)
        return None if fits else f"{name}={show(value)}: expected {section.__module__}.{section.__name__} or None"
    return next(iter(conform(value.item() if isinstance(value, np.generic) else value, kind, name)), None)
