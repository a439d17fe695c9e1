"""The composition of a task and a model, plain or with a preset, from which the tag of a run names the differences."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from attnlab.config.compose import choice_named, compose_node, hydra_session, plain, unresolved
from attnlab.config.dotted_keys import flatten
from attnlab.config.fill_defaults import defaults, filled, with_decoder
from attnlab.config.identity_sections import without_sections
from attnlab.config.user_conf import cached_per_folder


class PlainComposition:
    """The plain composition of a task and a model.

    Attributes:
        raw: its values, interpolations unresolved.
        suffixes: the short forms of its keys. A key loses its section if the rest is unambiguous: d_model, max_steps,
            ortho.weight.
    """

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw
        keys = list(flatten(without_sections(plain(OmegaConf.create(raw)))))
        shorts = [key.partition(".")[2] or key for key in keys]
        self.suffixes = {
            key: short if shorts.count(short) == 1 else key for key, short in zip(keys, shorts, strict=True)
        }

    def expected(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Flattened values of the plain composition; interpolations refer to the values of a complete `config`."""
        # Defaults of the classes in use. A class that the plain composition does not name adds no difference by them.
        raw = filled(self.raw, defaults(config))
        grafted = _grafted(raw, config)
        following = [key for key, value in flatten(without_sections(grafted)).items() if "${" in str(value)]
        node = OmegaConf.create(grafted)
        values = {key: value for key, value in flatten(without_sections(raw)).items() if "${" not in str(value)}
        for key in following:
            value = OmegaConf.select(node, key)
            values |= flatten(OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value, key)
        return values


@cached_per_folder
def plain_composition(task: str, model: str, conf: Path) -> PlainComposition:
    """The plain composition of a task and a model, by their names."""
    # A task's yaml sets no key of the model, and a model's yaml no other: one composition of each serves all pairs.
    own = _unresolved((f"model={choice_named('model', model, conf)}",), conf)["model"]
    return PlainComposition(with_decoder(_unresolved((f"task={task}",), conf) | {"model": own}))


@cached_per_folder
def preset_composition(task: str, model: str, presets: tuple[str, ...], conf: Path) -> PlainComposition:
    """The composition of a task and a model with presets (`experiment=...`, `debug=...`)."""
    words = f"task={task}", f"model={choice_named('model', model, conf)}", *presets
    return PlainComposition(with_decoder(_unresolved(words, conf)))


@cached_per_folder
def _unresolved(choices: tuple[str, ...], conf: Path) -> dict[str, Any]:
    """The composition with some group choices, its interpolations unresolved."""
    with hydra_session(conf):
        return unresolved(compose_node(choices)[0])


def _grafted(plain: Any, actual: Any) -> Any:
    """`actual` with the interpolations of `plain`."""
    if isinstance(plain, str) and "${" in plain:
        return plain
    if isinstance(plain, dict) and isinstance(actual, Mapping):
        return {key: _grafted(plain[key], value) if key in plain else value for key, value in actual.items()}
    if isinstance(plain, list) and isinstance(actual, list) and len(plain) == len(actual):
        return [_grafted(*pair) for pair in zip(plain, actual, strict=True)]
    return actual
