"""Check of a mechanism's arguments by the annotations of its constructors, also where it is made in Python."""

import inspect
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache, wraps
from typing import Any

import numpy as np

from attnlab.config.message_text import hint, listed, show
from attnlab.config.nearest_word import nearest
from attnlab.config.targets import constructor_annotations, constructor_arguments, option_types
from attnlab.config.validation.type_check import conform, section_of


def check_when_made(mechanism: Any) -> None:
    """Makes the constructor of a class check its arguments; within that of a subclass it checks nothing."""
    construct = mechanism.__init__

    @wraps(construct)
    def checked(self: Any, *args: Any, **options: Any) -> None:
        if type(self) is mechanism:
            _require_fitting(mechanism, args, options)
        construct(self, *args, **options)

    mechanism.__init__ = checked


def _require_fitting(mechanism: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
    """Checks arguments by the annotations of the constructors of a class and of its bases.

    Raises:
        TypeError: an option that the constructor does not take.
        ValueError: a value that does not fit its annotation.
    """
    names = constructor_arguments(mechanism).keys()
    for name in () if _takes_others(mechanism) else options.keys() - names:
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
def _takes_others(mechanism: Any) -> bool:
    """Whether a constructor takes other options too: by `**options` without their names."""
    kinds = constructor_annotations(mechanism.__init__)
    others = [p for p in inspect.signature(mechanism).parameters.values() if p.kind is p.VAR_KEYWORD]
    return any(not option_types(kinds.get(parameter.name)) for parameter in others)


@cache
def _annotations(mechanism: Any) -> dict[str, list[Any]]:
    """The annotations of each argument in the constructors of a class and of its bases."""
    kinds: dict[str, list[Any]] = {}
    for level in mechanism.__mro__:
        for name, kind in constructor_annotations(level.__init__).items():
            kinds.setdefault(name, []).append(kind)
    return kinds


def _problem(name: str, value: Any, kind: Any) -> str | None:
    """What is wrong with a value; None if it fits."""
    if section := section_of(kind):
        if type(value) is section:
            return next(iter(conform(asdict(value), section, name)), None)
        # A subclass, such as a class of positions, has fields of its own.
        fits = value is None or isinstance(value, section)
        return None if fits else f"{name}={show(value)}: expected {section.__module__}.{section.__name__} or None"
    return next(iter(conform(value.item() if isinstance(value, np.generic) else value, kind, name)), None)
