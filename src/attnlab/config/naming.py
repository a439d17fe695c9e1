"""The run folder as a pure function of the configuration: label / model / tag / seed.

Configurations are complete here (`defaults.completed`). The tag names the differences from the plain composition of
the task and model. Two commands with the same meaning meet in one folder; two different ones never do: a folder's name
can be read back to one configuration only.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from omegaconf import OmegaConf

from attnlab.config.apply_overrides import flatten
from attnlab.config.compose import CONF, choice_named, compose_node, hydra_session, plain, unresolved
from attnlab.config.defaults import class_defaults, defaults, filled
from attnlab.config.layer_plan import filled_shares
from attnlab.config.suggest import show

NOT_IDENTITY = ("seed", "paths", "logger", "trainer", "debug", "report")
"""Parts of the configuration that do not change what is trained; the seed has a folder level of its own. What debug=...
sets is there beside its mark."""

_LONGEST, _KEPT, _DIGITS = 120, 80, 10


def run_label(config: Mapping[str, Any]) -> str:
    """Task and split: the task's name and the values of the options in its label (`scan-length_cutoff-26`)."""
    task = config["task"]
    return "-".join([task["name"], *(_written(task[option]) for option in label_options(task))])


def label_options(task: Mapping[str, Any]) -> list[str]:
    """The options the label shows: those it names, and any that bears the name of such a value."""
    return [name for option in task["label"] for name in (option, str(task[option])) if name in task]


def run_tag(config: Mapping[str, Any], conf: Path = CONF) -> str:
    """What differs from the plain composition of this task and model, as `key=value` joined by commas, or `default`.

    A key that follows another one (`attention_dropout: ${backbone.dropout}`) counts only where it does not follow. A
    key that neither says has its default in both.
    """
    config = _with_filled_shares(config)
    expected, suffixes = _expected(config, conf)
    actual = flatten(_trained_part(config))
    expected = _without_unused_defaults(expected, actual)
    shown = {f"task.{option}" for option in ("label", *label_options(config["task"]))}
    parts = []
    for key in (actual.keys() | expected.keys()) - shown:
        new = _text(actual, key)
        if new != _text(expected, key):
            parts.append(f"{suffixes.get(key, key)}={new}")
    tag = ",".join(sorted(parts)) or "default"
    if len(tag) <= _LONGEST:
        return tag
    return f"{tag[:_KEPT].rpartition(',')[0] or tag[:_KEPT]},{hashlib.sha256(tag.encode()).hexdigest()[:_DIGITS]}"


def run_folder(config: Mapping[str, Any], conf: Path = CONF) -> Path:
    """`<paths.runs>/<label>/<model>/<tag>/seed<k>`."""
    place = Path(config["paths"]["runs"]) / run_label(config) / config["model"]["name"]
    return place / run_tag(config, conf) / f"seed{config['seed']}"


def comparable(config: Mapping[str, Any]) -> dict[str, Any]:
    """A complete configuration without what is no part of a run's identity, the same meaning written in one way."""
    return _trained_part(config)


def _trained_part(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in _with_filled_shares(config).items() if key not in NOT_IDENTITY}


def identity(config: Mapping[str, Any]) -> dict[str, Any]:
    """What every checkpoint of a run carries: names and seed to be read, and a hash of all that is comparable.

    Null is as good as no key here too, so equal hashes mean no `differences`.

    Args:
        config: as the run's config.yaml says it, without defaults that a later version adds: these must not make
            another run of it.
    """
    values = {key: _written(value) for key, value in flatten(_trained_part(config)).items() if value is not None}
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
    names = {part: config[part]["name"] for part in ("task", "model")}
    return {**names, "seed": config["seed"], "configuration": digest}


def _with_filled_shares(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with a number for a share that is null; as it is where there is none."""
    model = dict(config.get("model") or {})
    for place in ("encoder", "decoder"):
        groups = model.get(place)
        if isinstance(groups, list) and any(group.get("share", 0) is None for group in groups):
            shares = filled_shares([group["share"] for group in groups])
            model[place] = [{**group, "share": share} for group, share in zip(groups, shares, strict=True)]
    return {**config, "model": model} if model else dict(config)


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Readable lines `key: old -> new`, for keys whose values differ; null is as good as no key.

    So a key that a later version adds, with null for what was always done, changes no run.
    """
    old, new = flatten(a), flatten(b)
    given = {key for values in (old, new) for key, value in values.items() if value is not None}
    changed = [key for key in sorted(given) if _text(old, key) != _text(new, key)]
    return [f"{key}: {' -> '.join(show(values.get(key, '(none)')) for values in (old, new))}" for key in changed]


def _text(values: Mapping[str, Any], key: str) -> str:
    """A value as written in a tag; nothing, which no value is written as, where the key is missing."""
    return _written(values[key]) if key in values else ""


@cache
def _plain_composition(task: str, model: str, conf: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The plain composition, its interpolations unresolved, and the short form of each key it gives.

    A key loses its section where the rest is unambiguous: d_model, max_steps, ortho.weight.
    """
    # A task's yaml owns no key of the model, and a model's no other: one composition of each serves all pairs.
    own = _unresolved(f"model={choice_named('model', model, conf)}", conf)["model"]
    raw = _unresolved(f"task={task}", conf) | {"model": own}
    keys = flatten(_trained_part(plain(OmegaConf.create(raw))))
    shorts = [key.partition(".")[2] or key for key in keys]
    suffixes = {key: short if shorts.count(short) == 1 else key for key, short in zip(keys, shorts, strict=True)}
    return raw, suffixes


@cache
def _unresolved(choice: str, conf: Path) -> dict[str, Any]:
    """The composition with one choice of a group, its interpolations unresolved."""
    with hydra_session(conf):
        return unresolved(compose_node([choice])[0])


def _expected(config: Mapping[str, Any], conf: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Flattened values of the plain composition, those that follow other keys as they would follow this config's."""
    raw, suffixes = _plain_composition(config["task"]["name"], config["model"]["name"], conf)
    # Of the classes in use: where another one is named than in the plain composition, its defaults are no difference.
    raw = filled(raw, defaults(config))
    grafted = _grafted(raw, config)
    following = [key for key, value in flatten(_trained_part(grafted)).items() if "${" in str(value)]
    node = OmegaConf.create(grafted)
    values = {key: value for key, value in flatten(_trained_part(raw)).items() if "${" not in str(value)}
    for key in following:
        found = OmegaConf.select(node, key)
        values |= flatten(OmegaConf.to_container(found, resolve=True) if OmegaConf.is_config(found) else found, key)
    return values, suffixes


def _without_unused_defaults(expected: dict[str, Any], actual: Mapping[str, Any]) -> dict[str, Any]:
    """Without options of attentions that are not in use, as far as they have their defaults: written or not, the same.

    Args:
        expected, actual: flattened.
    """
    if expected.keys() <= actual.keys():
        return expected
    targets = {key: value for key, value in expected.items() if key.endswith("._target_")}
    own = dict(item for key, value in targets.items() for item in class_defaults(value, key.removesuffix("._target_")))
    unused = [key for key in own.keys() & expected.keys() - actual.keys() if _text(own, key) == _text(expected, key)]
    return {key: value for key, value in expected.items() if key not in unused}


def _grafted(plain: Any, actual: Any) -> Any:
    """`actual`, but with the interpolations of `plain` in place."""
    if isinstance(plain, str) and "${" in plain:
        return plain
    if isinstance(plain, dict) and isinstance(actual, Mapping):
        return {key: _grafted(plain[key], value) if key in plain else value for key, value in actual.items()}
    if isinstance(plain, list) and isinstance(actual, list) and len(plain) == len(actual):
        return [_grafted(*pair) for pair in zip(plain, actual, strict=True)]
    return actual


def _written(value: Any) -> str:  # noqa: PLR0911
    """A value in one way only, safe in file names; equal numbers alike (1e-3, 0.001; 5, 5.0), lists joined by +."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float() if value.is_integer() and abs(value) < 1e16:
            return str(int(value))
        case float() | int():
            return re.sub(r"e\+?(-?)0*", r"e\1", repr(value))
        case list() if not any(isinstance(item, (list, dict)) for item in value):
            # A list of one or none keeps a plus, so that it is not read as its only value.
            return "+".join(map(_written, value)) + ("+" if len(value) < 2 else "")
        case str():
            return quote(f"'{value}'" if _reads_otherwise(value) else value, safe="")
    return quote(repr(value), safe="")


def _reads_otherwise(text: str) -> bool:
    """Whether text without quotes would read as a number, a truth value or nothing."""
    try:
        float(text)
    except ValueError:
        return text in ("", "null", "true", "false")
    return True
