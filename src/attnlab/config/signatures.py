"""Constructor arguments and declarations of `_target_` classes, read from the imported class."""

import dataclasses
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Unpack, get_args, get_origin, get_type_hints

from attnlab.config.allowed_targets import class_at


@dataclass(frozen=True)
class Argument:
    """One argument of a constructor; `annotation` is `typing.Any` if it has none."""

    annotation: Any = Any
    default: Any = None
    required: bool = True


@dataclass(frozen=True)
class Signature:
    """A class with its constructor arguments.

    lost: capabilities that the class declares and does not have, each with the reason.
    """

    cls: type
    arguments: Mapping[str, Argument]
    lost: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The dotted path of the class."""
        return f"{self.cls.__module__}.{self.cls.__qualname__}"

    @property
    def name(self) -> str:
        """The class's name without its module."""
        return self.cls.__name__

    def declares(self, name: str) -> Any:
        """A class attribute; None if there is none."""
        return getattr(self.cls, name, None)

    def can(self, capability: str) -> bool:
        """Whether the class has a capability (`supports_cross`), declared or inherited."""
        return capability not in self.lost and bool(self.declares(capability))


def read_signature(path: str) -> Signature:
    """The class at a dotted path, such as `attnlab.tasks.scan.task.Scan`, and its arguments.

    Raises:
        TargetError: no such module or class, with the nearest one, or a package that is not allowed.
    """
    cls = class_at(path)
    return Signature(cls, constructor_arguments(cls))


@cache
def constructor_arguments(cls: type) -> Mapping[str, Argument]:
    """Arguments of a constructor by name, with the keys of `**options: Unpack[Options]`.

    The default of such a key is its default in the next constructor of a base class.
    """
    levels = [level for level in cls.__mro__ if "__init__" in vars(level)]
    return _arguments_of(levels[:-1])  # without `object`


def _arguments_of(levels: list[type]) -> dict[str, Argument]:
    if not levels:
        return {}
    init = vars(levels[0])["__init__"]
    annotations, arguments = constructor_annotations(init), {}
    for parameter in list(inspect.signature(init).parameters.values())[1:]:
        annotation = annotations.get(parameter.name, Any)
        if parameter.kind is parameter.VAR_KEYWORD:
            inherited = _arguments_of(levels[1:]) if option_types(annotation) else {}
            for name, kind in option_types(annotation).items():
                arguments[name] = inherited.get(name, Argument(kind, required=False))
        elif parameter.kind is not parameter.VAR_POSITIONAL:
            required = parameter.default is parameter.empty
            default = None if required else _default(levels[0], parameter)
            arguments[parameter.name] = Argument(annotation, default, required)
    return arguments


def _default(cls: type, parameter: inspect.Parameter) -> Any:
    """The default of an argument; of a dataclass's field with a factory, what the factory makes."""
    field_of_class = getattr(cls, "__dataclass_fields__", {}).get(parameter.name)
    factory = getattr(field_of_class, "default_factory", dataclasses.MISSING)
    return parameter.default if factory is dataclasses.MISSING else factory()


def constructor_annotations(init: Any) -> dict[str, Any]:
    """The annotations of a constructor; without those that name unknown types, if there is one."""
    try:
        return get_type_hints(init, include_extras=True)
    except (NameError, TypeError):
        written = getattr(init, "__annotations__", {})
        return {name: kind for name, kind in written.items() if not isinstance(kind, str)}


def option_types(annotation: Any) -> dict[str, Any]:
    """The keys of `Unpack[TypedDict]` with their types; empty for another annotation of `**options`."""
    if get_origin(annotation) is not Unpack:
        return {}
    (options,) = get_args(annotation)
    return get_type_hints(options, include_extras=True)
