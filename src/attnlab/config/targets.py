"""Classes that a configuration names as `_target_`: which are allowed, their arguments, the sections that name them.

A configuration can come from a stranger (the config.yaml of a run folder), and importing a module runs its code. So a
`_target_` outside attnlab is imported only if `ATTNLAB_PLUGINS=my_package,other` names its package; no
configuration can set this variable. Modules are found on disk without importing anything, parent packages included.
"""

import dataclasses
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from itertools import takewhile
from pathlib import Path
from typing import Any, Unpack, get_args, get_origin, get_type_hints

from attnlab.config.dotted_keys import join
from attnlab.config.message_text import PLUGINS, first_line, hint, show
from attnlab.config.nearest_word import choice, nearest
from attnlab.config.problem import Problem, UserError

PACKAGE = "attnlab"


class TargetError(UserError):
    """A `_target_` that names no class, or a class that is not allowed."""


def allowed_packages() -> list[str]:
    """attnlab and the packages that the environment variable allows."""
    words = [word.strip() for word in os.environ.get(PLUGINS, "").split(",")]
    return [PACKAGE, *(word for word in words if word)]


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
        raise _no_module(module)
    allow = f"{PLUGINS}={','.join([*packages[1:], package])}"
    raise TargetError(
        f"{package} is outside {PACKAGE}, and no code outside {PACKAGE} is run unless you allow its package; "
        f"if you trust it, begin the command with {allow}"
    )


def foreign_targets(config: Mapping[str, Any]) -> list[Problem]:
    """Problems of all `_target_` classes that are not allowed; each class is reported once."""
    problems: dict[str, Problem] = {}
    for key, path in target_paths(config):
        try:
            require_allowed(path)
        except TargetError as error:
            problems.setdefault(path, Problem(key, f"={path}: {error}"))
    return list(problems.values())


def target_paths(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Dotted key and text of every `_target_` of a configuration, at any depth."""
    pairs = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for name, item in pairs:
        path = join(key, str(name))
        if name == "_target_":
            yield path, str(item)
        yield from target_paths(item, path)


def class_at(path: str) -> type:
    """Imports the class at a dotted path, if its package is allowed.

    Raises:
        TargetError: no such module or class, with the nearest one, or a package that is not allowed.
    """
    require_allowed(path)
    module_name, _, name = path.rpartition(".")
    if module_name not in sys.modules and find_module(module_name) is None:
        raise _no_module(module_name)
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
    if cls is base or not issubclass(cls, base):
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


def _no_module(name: str) -> TargetError:
    package, near = name.partition(".")[0], nearest_module(name)
    if find_module(package) is None and near in (None, package):
        return TargetError(
            f"no module {name}; PYTHONPATH=<the folder of {package}> before the command helps to find it"
        )
    return TargetError(f"no module {name}{hint(near)}")


def nearest_module(name: str) -> str | None:
    """The module nearest to a name that does not exist: correct up to its first wrong part."""
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        known = ".".join(parts[:end])
        if (package := find_module(known)) is not None:
            part = nearest(parts[end], _submodules(package))
            return f"{known}.{part}" if part else None
    return nearest(parts[0], allowed_packages())


def _submodules(package: ModuleSpec) -> list[str]:
    folders = filter(Path.is_dir, map(Path, package.submodule_search_locations or ()))
    paths = [path for folder in folders for path in sorted(folder.iterdir())]
    return [path.stem for path in paths if path.suffix == ".py" or (path.is_dir() and path.name.isidentifier())]


@dataclass(frozen=True)
class Argument:
    """One argument of a constructor; `annotation` is `typing.Any` if it has none."""

    annotation: Any = Any
    default: Any = None
    required: bool = True


@dataclass(frozen=True)
class Signature:
    """A class with its constructor arguments.

    unsupported: capabilities that the class declares and does not have, each with the reason.
    """

    cls: type
    arguments: Mapping[str, Argument]
    unsupported: Mapping[str, str] = field(default_factory=dict)

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
        return capability not in self.unsupported and bool(self.declares(capability))


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


BUILDER_ARGUMENTS = {
    "d_model": "backbone.d_model",
    "n_heads": "backbone.n_heads",
    "bias": "backbone.attention_bias",
    "dropout": "backbone.attention_dropout",
    "positions": "backbone.positions",
    "orthogonality": "model.ortho",
    "initialization": "backbone.initialization",
    "inner_width": "backbone.d_attention",
}
"""arguments of an attention that the network builder passes, and the keys that set them"""


OVERRIDABLE_ARGUMENTS = {"initialization"}
"""builder arguments that the section of one attention may set for that attention alone"""


OFFERED_ARGUMENTS = ("normalization", "max_length", "train_length")
"""arguments that an attention's section may set, else the network builder does; defaults of the class do not count"""


TASK, ATTENTION = "attnlab.tasks.base.Task", "attnlab.attention.base.Attention"
"""base classes that a `_target_` must extend"""
KIND_BASE, POSITIONS_BASE = "attnlab.tasks.kinds.base.Kind", "attnlab.attention.positions.base.Positions"
"""base classes of kinds of task and of positional encodings"""


NEEDED_ARGUMENTS = {
    "supports_orthogonality": "orthogonality",
    "supports_position_scores": "positions",
    "supports_rotation": "positions",
    "supports_inner_width": "inner_width",
}
"""arguments that a class must accept to have a capability, because the network builder asks for it through them"""


TASK_KEYS = ("_target_", "name", "label")


MECHANISM = "${model.mechanism}"
"""in a slot of a model's yaml or of a preset: the attention that the model names as its mechanism"""


def attention_nodes(model: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Key, slot (encoder, decoder, cross) and section of every attention of a model; malformed parts are skipped."""
    for slot in ("encoder", "decoder"):
        groups = model.get(slot)
        for i, group in enumerate(groups if isinstance(groups, list) else []):
            if isinstance(group, Mapping) and isinstance(group.get("attention"), Mapping):
                yield f"model.{slot}.{i}.attention", slot, group["attention"]
    if isinstance(model.get("cross"), Mapping):
        yield "model.cross", "cross", model["cross"]


def attention_sections(model: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Key and section of the model's mechanism and of every attention in its slots; malformed parts are skipped."""
    if not isinstance(model, Mapping):
        return
    if isinstance(model.get("mechanism"), Mapping):
        yield "model.mechanism", model["mechanism"]
    yield from ((key, node) for key, _, node in attention_nodes(model))


def values_of_null(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options of an attention for which null stands for a value of the class, with these values."""
    try:
        return read_signature(str(node.get("_target_", ""))).declares("values_of_null") or {}
    except TargetError:
        return {}


def signature_of(node: Mapping[str, Any]) -> Signature:
    """The class of a section; `unsupported` are the capabilities that its code or the section's options lack.

    A class attribute `limits` names these options.

    Raises:
        TargetError: no such class.
    """
    signature = read_signature(str(node.get("_target_", "")))
    unsupported = _unsupported_claims(signature)
    for option, by_value in (signature.declares("limits") or {}).items():
        argument = signature.arguments.get(option)
        chosen = node.get(option, argument.default if argument is not None else None)
        for value, capabilities in by_value.items():
            if chosen == value:
                unsupported |= dict.fromkeys(capabilities, f" with {option}={show(value)}")
    return replace(signature, unsupported=unsupported)


def _unsupported_claims(signature: Signature) -> dict[str, str]:
    """Capabilities that an attention claims or inherits although it lacks what they need, each with the reason."""
    cls: Any = signature.cls
    base: Any = class_at(ATTENTION)
    if not issubclass(cls, base):
        return {}
    unsupported = {claim: "" for claim, argument in NEEDED_ARGUMENTS.items() if argument not in signature.arguments}
    if cls.supports_step and cls.step is base.step:
        unsupported["supports_step"] = " (it declares supports_step and gives no step)"
    elif cls.supports_step and _steps_for_another_attend(cls, base):
        unsupported["supports_step"] = " (it gives an attend of its own and inherits the step of another)"
    return unsupported


def _steps_for_another_attend(cls: type, base: type) -> bool:
    """Whether a class overrides `attend` and inherits a `step` that was written for the `attend` of a base class."""
    levels = [vars(level) for level in cls.__mro__ if level is not base]
    together = any("attend" in names and "step" in names for names in levels)
    return together and any("attend" in names for names in takewhile(lambda names: "step" not in names, levels))


def attention_options(signature: Signature) -> dict[str, Argument]:
    """The arguments of an attention that a yaml may set."""
    passed = BUILDER_ARGUMENTS.keys()
    return {
        name: replace(item, required=item.required and name not in passed)
        for name, item in signature.arguments.items()
        if name not in passed or name in OVERRIDABLE_ARGUMENTS
    }


def yaml_arguments(signature: Signature, key: str) -> dict[str, Argument]:
    """The arguments that only a yaml sets: for others, a default of the class would hide the backbone's value.

    Args:
        key: of the section: `task` or an attention's.
    """
    others = TASK_KEYS if key == "task" else {*OFFERED_ARGUMENTS, *BUILDER_ARGUMENTS}
    return {name: argument for name, argument in signature.arguments.items() if name not in others}
