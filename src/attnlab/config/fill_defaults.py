"""Defaults of the schema, of the task's class and of every attention's class, filled into a configuration.

This is done once, so every reader sees a complete configuration: a run has the same folder whether a yaml writes a
default or leaves it out, and the config.yaml of a run records the defaults that it used. Lists that are sets
(`run_identity.yaml`) come into one order, without repeats.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, cast

from omegaconf import OmegaConf

from attnlab.config.conf_files import cached_per_folder, merged_yaml, plain
from attnlab.config.dotted_keys import child, copied, join, value_at
from attnlab.config.plain_yaml import table_beside
from attnlab.config.schema import Config
from attnlab.config.shipped_files import CONF
from attnlab.config.targets import (
    TargetError,
    attention_nodes,
    attention_sections,
    read_signature,
    values_of_null,
    yaml_arguments,
)
from attnlab.config.user_path import with_expanded_paths
from attnlab.config.validation.type_check import hints, item_type, section_of

Default = tuple[str, Any]
"""A dotted key and its default."""
_SETS: dict[str, list[Any]] = table_beside(__file__, "run_identity.yaml")["sets"]


def completed(config: Mapping[str, Any], of_classes: bool = True) -> dict[str, Any]:
    """A configuration with its defaults; given values stay, wrong ones and unresolved interpolations included, but for
    home folders in its paths, which are written out.

    Args:
        of_classes: also the defaults of its `_target_` classes, which are imported.
    """
    config = with_expanded_paths(with_slots(config))
    full = filled(config, defaults(config, of_classes))
    return with_values_of_null(full) if of_classes else full


def with_values_of_null(config: dict[str, Any]) -> dict[str, Any]:
    """Gives options of attentions whose null stands for a value of the class this value; returns the configuration."""
    for _, node in attention_sections(config.get("model")):
        cast("dict[str, Any]", node).update(
            {name: value for name, value in values_of_null(node).items() if node.get(name) is None}
        )
    return config


def with_slots(config: Mapping[str, Any], mechanism: Any = None) -> dict[str, Any]:
    """A configuration with the encoder's groups of layers for the decoder, if its model does not name any, with the
    mechanism for a cross-attention that is null, and with its other options for an attention that names no class.

    Args:
        mechanism: what the cross-attention is then; null = the model's.
    """
    if not isinstance(config.get("model"), Mapping):
        return dict(config)
    model = copied(dict(config["model"]))
    if "encoder" in model and "decoder" not in model:
        model["decoder"] = copied(model["encoder"])
    if isinstance(model.get("mechanism"), Mapping):
        if model.get("cross") is None:
            model["cross"] = mechanism or copied(model["mechanism"])
        for _, _, node in attention_nodes(model):
            if "_target_" not in node:
                cast("dict[str, Any]", node).update({**copied(model["mechanism"]), **node})
    return {**config, "model": model}


@cached_per_folder
def model_yaml(name: str, conf: Path = CONF) -> Mapping[str, Any]:
    """The `model` section of a model's yaml with all of its slots, its defaults list included; nobody changes it.

    Raises:
        UserConfError: as `merged_yaml`. OmegaConfBaseException: an interpolation that cannot be resolved.
    """
    config = plain(OmegaConf.create({"model": merged_yaml("model", name, conf)}))
    section: Mapping[str, Any] = with_slots(config)["model"]
    return section


def filled(config: Mapping[str, Any], values: Iterable[Default]) -> dict[str, Any]:
    """A copy of a configuration with these defaults for missing keys; sections that are missing stay missing."""
    full = {key: copied(value) for key, value in config.items()}
    for key, value in values:
        *sections, name = key.split(".")
        parent: Any = full
        for section in sections:
            parent = child(parent, section)
        if isinstance(parent, dict):
            parent.setdefault(name, copied(value))
    sort_sets(full)
    return full


def sort_sets(config: dict[str, Any]) -> None:
    """Sort the lists of a configuration that are sets, in place; wrong values and repeated numbers stay."""
    for key, order in _SETS.items():
        values = value_at(config, key)
        if isinstance(values, list) and all(item in order if order else type(item) is int for item in values):
            values[:] = sorted(set(values), key=order.index) if order else sorted(values)


def defaults(config: Mapping[str, Any], of_classes: bool = True) -> Iterator[Default]:
    """Every key that has a default in this configuration, given or not."""
    # The report block belongs to the experiment and is no part of a run.
    yield from (item for item in _of_schema(Config, config, "") if item[0].split(".")[0] != "report")
    task, model = config.get("task"), config.get("model")
    if isinstance(task, Mapping):
        yield "task.label", []
    if not of_classes:
        return
    if isinstance(task, Mapping):
        yield from class_defaults(task.get("_target_"), "task")
    for key, node in attention_sections(model):
        yield from class_defaults(node.get("_target_"), key)


def _of_schema(kind: type, value: Mapping[str, Any], key: str) -> Iterator[Default]:
    for field in fields(kind):
        path, kind_of_field = join(key, field.name), hints(kind)[field.name]
        if field.default_factory is not MISSING:
            default = field.default_factory()
            yield path, asdict(default) if is_dataclass(default) and not isinstance(default, type) else default
        elif field.default is not MISSING:
            yield path, field.default
        yield from _of_parts(kind_of_field, value.get(field.name), path)


def _of_parts(kind: Any, value: Any, key: str) -> Iterator[Default]:
    """Defaults of a section, or of each section in a list, if it exists."""
    if isinstance(value, Mapping) and (section := section_of(kind)) is not None:
        yield from _of_schema(section, value, key)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _of_parts(item_type(kind), item, join(key, str(i)))


def class_defaults(path: Any, key: str) -> Iterator[Default]:
    """Defaults of a `_target_` class for the arguments that only a yaml sets.

    Args:
        path: the dotted path of the class.
        key:  of the section with the `_target_`: `task` or an attention's.
    """
    try:
        signature = read_signature(str(path))
    except TargetError:
        return
    for name, argument in yaml_arguments(signature, key).items():
        if not argument.required:
            yield join(key, name), argument.default
