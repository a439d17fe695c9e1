"""The run folder as a pure function of the configuration: label / model / tag / seed.

All configurations here are complete (`defaults.completed`). The tag names the differences from the plain composition
of the task and model, the most important ones first (`run_identity.yaml`). Commands with the same meaning share one
folder, and different ones never do: every folder name belongs to one configuration only, bookkeeping aside.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from attnlab.config.compose import choice_named, compose_node, hydra_session, plain, unresolved
from attnlab.config.dotted_keys import flatten
from attnlab.config.fill_defaults import class_defaults, defaults, filled, with_decoder
from attnlab.config.layer_plan import filled_shares
from attnlab.config.message_text import show
from attnlab.config.own_conf import cached_per_folder
from attnlab.config.shipped_files import CONF
from attnlab.config.unique_text import unique_text
from attnlab.config.yaml_tables import table_beside

NOT_IDENTITY = ("seed", "paths", "logger", "trainer", "debug", "report")
"""sections that do not change the trained network; the seed has its own folder level, and debug=... sets other
sections"""

_LONGEST, _KEPT, _DIGITS = 120, 80, 10

_TABLE = table_beside(__file__)
_RANKS = {key: rank for rank, key in enumerate(_TABLE["order"])}
_EXAMPLES_A_BATCH = "train.eval_batch_size"


def bookkeeping(config: Mapping[str, Any]) -> frozenset[str]:
    """Keys that change no number of this run, but for rounding: they are no part of its identity.

    The batch size of evaluation is not among them where it decides how many examples `train.eval_batches` evaluates.
    """
    cut = (config.get("train") or {}).get("eval_batches") is not None
    return frozenset(_TABLE["bookkeeping"]) - ({_EXAMPLES_A_BATCH} if cut else set())


def run_label(config: Mapping[str, Any]) -> str:
    """Task and split: the task's name and the values of the options in its label (`scan-length_cutoff-26`)."""
    task = config["task"]
    return "-".join([task["name"], *(unique_text(task[option]) for option in label_options(task))])


def label_options(task: Mapping[str, Any]) -> list[str]:
    """Task options in the label: those that `task.label` names, and options with the name of such an option's value."""
    return [name for option in task["label"] for name in (option, str(task[option])) if name in task]


def run_tag(config: Mapping[str, Any], conf: Path = CONF) -> str:
    """Differences from the plain composition of this task and model, as `key=value` joined by commas, or `default`.

    A key that follows another one (`attention_dropout: ${backbone.dropout}`) counts only if its value differs from it.
    A long tag ends in a hash of all of them.
    """
    parts = tag_parts(config, conf)
    return cut_tag([parts[key] for key in sorted(parts.keys() - bookkeeping(config), key=_importance)])


def tag_parts(config: Mapping[str, Any], conf: Path = CONF) -> dict[str, str]:
    """Differences from the plain composition of this task and model by key, bookkeeping included: `key=value`."""
    config = _with_filled_shares(config)
    expected, suffixes = _expected(config, conf)
    actual = flatten(_without_sections(config))
    expected = _without_unused_defaults(expected, actual)
    shown = {f"task.{option}" for option in ("label", *label_options(config["task"]))}
    found = {}
    for key in (actual.keys() | expected.keys()) - shown:
        new = _text(actual, key)
        if new != _text(expected, key):
            found[key] = f"{suffixes.get(key, key)}={new}"
    return found


def cut_tag(parts: Sequence[str]) -> str:
    """Parts of a tag, joined; a long tag is cut at a comma and ends in a hash of the whole."""
    tag = ",".join(parts) or "default"
    if len(tag) <= _LONGEST:
        return tag
    return f"{tag[:_KEPT].rpartition(',')[0] or tag[:_KEPT]},{hashlib.sha256(tag.encode()).hexdigest()[:_DIGITS]}"


def _importance(key: str) -> tuple[int, str]:
    """Place of a key in a tag: by the longest of its sections that `run_identity.yaml` lists."""
    words = key.split(".")
    sections = (".".join(words[:end]) for end in range(len(words), 0, -1))
    return next((_RANKS[section] for section in sections if section in _RANKS), len(_RANKS)), key


def run_folder(config: Mapping[str, Any], conf: Path = CONF) -> Path:
    """`<paths.runs>/<label>/<model>/<tag>/seed<k>`."""
    folder = Path(config["paths"]["runs"]) / run_label(config) / config["model"]["name"]
    return folder / run_tag(config, conf) / f"seed{config['seed']}"


def comparable(config: Mapping[str, Any]) -> dict[str, Any]:
    """A complete configuration without the sections of `NOT_IDENTITY` and `bookkeeping`, with shares as numbers."""
    aside = bookkeeping(config)
    return {
        section: {key: value for key, value in values.items() if f"{section}.{key}" not in aside}
        if section == "train" and isinstance(values, Mapping)
        else values
        for section, values in _without_sections(config).items()
    }


def _without_sections(config: Mapping[str, Any]) -> dict[str, Any]:
    """A complete configuration without the sections of `NOT_IDENTITY`, and with shares of layers as numbers."""
    return {key: value for key, value in _with_filled_shares(config).items() if key not in NOT_IDENTITY}


def identity(config: Mapping[str, Any]) -> dict[str, Any]:
    """Identity of a run, stored in every checkpoint: names, seed and a hash of the `comparable` configuration.

    Null counts as a missing key, so equal hashes mean no `differences`.

    Args:
        config: the content of the run's config.yaml; defaults that a later version adds must not change the hash.
    """
    return _named_hash(config, comparable(config))


def former_identity(config: Mapping[str, Any]) -> dict[str, Any]:
    """Identity of a run in checkpoints written while bookkeeping still counted."""
    return _named_hash(config, _without_sections(config))


def _named_hash(config: Mapping[str, Any], hashed: Mapping[str, Any]) -> dict[str, Any]:
    values = {key: unique_text(value) for key, value in flatten(hashed).items() if value is not None}
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
    names = {part: config[part]["name"] for part in ("task", "model")}
    return {**names, "seed": config["seed"], "configuration": digest}


def _with_filled_shares(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with a number for every share of layers that is null."""
    model = dict(config.get("model") or {})
    for slot in ("encoder", "decoder"):
        groups = model.get(slot)
        if isinstance(groups, list) and any(group.get("share", 0) is None for group in groups):
            shares = filled_shares([group["share"] for group in groups])
            model[slot] = [{**group, "share": share} for group, share in zip(groups, shares, strict=True)]
    return {**config, "model": model} if model else dict(config)


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Lines `key: old -> new` for the keys whose values differ; null counts as a missing key.

    So a new key whose null means the behaviour of earlier versions changes no run.
    """
    old, new = flatten(a), flatten(b)
    given = {key for values in (old, new) for key, value in values.items() if value is not None}
    changed = [key for key in sorted(given) if _text(old, key) != _text(new, key)]
    return [f"{key}: {' -> '.join(show(values.get(key, '(none)')) for values in (old, new))}" for key in changed]


def _text(values: Mapping[str, Any], key: str) -> str:
    """A value as written in a tag; empty, unlike every value, if the key is missing."""
    return unique_text(values[key]) if key in values else ""


@cached_per_folder
def _plain_composition(task: str, model: str, conf: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The plain composition with unresolved interpolations, and the short forms of its keys.

    A key loses its section if the rest is unambiguous: d_model, max_steps, ortho.weight.
    """
    # A task's yaml sets no key of the model, and a model's yaml no other: one composition of each serves all pairs.
    own = _unresolved(f"model={choice_named('model', model, conf)}", conf)["model"]
    raw = with_decoder(_unresolved(f"task={task}", conf) | {"model": own})
    keys = flatten(_without_sections(plain(OmegaConf.create(raw))))
    shorts = [key.partition(".")[2] or key for key in keys]
    suffixes = {key: short if shorts.count(short) == 1 else key for key, short in zip(keys, shorts, strict=True)}
    return raw, suffixes


@cached_per_folder
def _unresolved(choice: str, conf: Path) -> dict[str, Any]:
    """The composition with one group choice, its interpolations unresolved."""
    with hydra_session(conf):
        return unresolved(compose_node([choice])[0])


def _expected(config: Mapping[str, Any], conf: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Flattened values of the plain composition, and its short keys; interpolations refer to the values of `config`."""
    raw, suffixes = _plain_composition(config["task"]["name"], config["model"]["name"], conf)
    # Defaults of the classes in use. A class that the plain composition does not name adds no difference by them.
    raw = filled(raw, defaults(config))
    grafted = _grafted(raw, config)
    following = [key for key, value in flatten(_without_sections(grafted)).items() if "${" in str(value)]
    node = OmegaConf.create(grafted)
    values = {key: value for key, value in flatten(_without_sections(raw)).items() if "${" not in str(value)}
    for key in following:
        found = OmegaConf.select(node, key)
        values |= flatten(OmegaConf.to_container(found, resolve=True) if OmegaConf.is_config(found) else found, key)
    return values, suffixes


def _without_unused_defaults(expected: dict[str, Any], actual: Mapping[str, Any]) -> dict[str, Any]:
    """Expected values without options of attentions that `config` does not use, if these have their defaults.

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
    """`actual` with the interpolations of `plain`."""
    if isinstance(plain, str) and "${" in plain:
        return plain
    if isinstance(plain, dict) and isinstance(actual, Mapping):
        return {key: _grafted(plain[key], value) if key in plain else value for key, value in actual.items()}
    if isinstance(plain, list) and isinstance(actual, list) and len(plain) == len(actual):
        return [_grafted(*pair) for pair in zip(plain, actual, strict=True)]
    return actual
