"""The composition of a task and a model, plain or with a preset, from which the tag of a run names the differences."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from attnlab.config.apply_overrides import followed_names
from attnlab.config.compose import choice_named, compose_node, hydra_session, plain, unresolved
from attnlab.config.content_cache import ContentCache
from attnlab.config.dotted_keys import flatten
from attnlab.config.fill_defaults import defaults, filled, with_decoder
from attnlab.config.identity_sections import without_sections
from attnlab.config.own_conf import cached_per_folder

_MOST = 1024


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
        # the result of a resolver (${name:...}) may depend on more than the configuration
        texts = [str(value) for value in flatten(without_sections(raw)).values()]
        self.followed = None if any("${" in text and ":" in text for text in texts) else followed_names(raw)
        self.decisive: dict[str, bool] = {}
        self.kept = ContentCache[dict[str, Any]](_MOST)

    def expected(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Flattened values of the plain composition; interpolations refer to the values of a complete `config`.

        Resolving them is slow, so the values are kept for configurations in which nothing differs that they depend on.
        """
        content = self._decisive_content(flatten(config))
        return self._expected(config) if content is None else self.kept.get(content, lambda: self._expected(config))

    def _decisive_content(self, flat: Mapping[str, Any]) -> tuple[tuple[str, ...], str] | None:
        """All keys, and the values that expected values depend on; None if these are not known."""
        if self.followed is None or any(isinstance(value, str) and "${" in value for value in flat.values()):
            return None
        read = [value for key, value in flat.items() if isinstance(value, (list, dict)) or self._is_decisive(key)]
        return tuple(flat), repr(read)

    def _is_decisive(self, key: str) -> bool:
        """Whether an interpolation may refer to a key, or a key names a class, which has defaults."""
        if key not in self.decisive:
            self.decisive[key] = not {"_target_", *(self.followed or ())}.isdisjoint(key.split("."))
        return self.decisive[key]

    def _expected(self, config: Mapping[str, Any]) -> dict[str, Any]:
        # Defaults of the classes in use. A class that the plain composition does not name adds no difference by them.
        raw = filled(self.raw, defaults(config))
        grafted = _grafted(raw, config)
        following = [key for key, value in flatten(without_sections(grafted)).items() if "${" in str(value)]
        node = OmegaConf.create(grafted)
        values = {key: value for key, value in flatten(without_sections(raw)).items() if "${" not in str(value)}
        for key in following:
            found = OmegaConf.select(node, key)
            values |= flatten(OmegaConf.to_container(found, resolve=True) if OmegaConf.is_config(found) else found, key)
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
