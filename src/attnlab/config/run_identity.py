"""The run folder as a pure function of the configuration: label / model / tag / seed.

Configurations here are complete (`fill_defaults.completed`). The tag names the differences from the plain composition
of the task and model, the most important ones first (`run_identity.yaml`). Where an experiment or debug=... sets some
of them, it names the differences from that preset, the preset, and a hash of all differences. Different
configurations never share a folder, bookkeeping aside.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from attnlab.config.classes.option_values import former_value, with_former_values, with_nulls
from attnlab.config.compose import compose_unresolved
from attnlab.config.conf_files import cached_per_folder, choice_named, group_choices
from attnlab.config.dotted_keys import MISSING, copied, flatten
from attnlab.config.fill_defaults import class_defaults, defaults, filled, with_slots
from attnlab.config.interpolations import Interpolations
from attnlab.config.layer_plan import filled_shares
from attnlab.config.message_text import show
from attnlab.config.plain_yaml import LOADER, table_beside
from attnlab.config.shipped_files import CONF
from attnlab.config.targets import MECHANISM

PRESETS = ("experiment", "debug")
"""groups that set other sections; the configuration records their choices"""
NOT_IDENTITY = ("seed", "paths", "logger", "trainer", "cost", *PRESETS, "report")
"""sections that do not change the trained network; the seed has its own folder level"""


def without_sections(config: Mapping[str, Any]) -> dict[str, Any]:
    """A complete configuration without the sections of `NOT_IDENTITY`, with shares of layers as numbers, and with the
    former ones of values that differ by rounding alone."""
    config = with_former_values(with_filled_shares(config))
    return {key: value for key, value in config.items() if key not in NOT_IDENTITY}


def with_filled_shares(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with a number for every share of layers that is null."""
    model = dict(config.get("model") or {})
    for slot in ("encoder", "decoder"):
        groups = model.get(slot)
        if isinstance(groups, list) and any(group.get("share", 0) is None for group in groups):
            shares = filled_shares([group["share"] for group in groups])
            model[slot] = [{**group, "share": share} for group, share in zip(groups, shares, strict=True)]
    return {**config, "model": model} if model else dict(config)


@dataclass(frozen=True)
class Composition:
    """What Hydra composes of a task, a model and presets.

    raw:      its values, interpolations unresolved.
    suffixes: the short forms of its keys. A key loses its section if the rest is unambiguous: d_model, max_steps,
        ortho.weight.
    """

    raw: dict[str, Any]
    suffixes: Mapping[str, str]

    def expected(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Flattened values of the composition; interpolations refer to the values of a complete `config`."""
        # Defaults of the classes in use. A class that the plain composition does not name adds no difference by them.
        raw = {**self.raw, "model": _with_mechanism_in(self.raw["model"], config["model"].get("mechanism"))}
        raw = filled(raw, defaults(config))
        grafted = _grafted(raw, config)
        values = {key: value for key, value in flatten(without_sections(raw)).items() if "${" not in str(value)}
        interpolations = Interpolations(grafted)
        for key, value in flatten(without_sections(grafted)).items():
            if "${" in str(value):
                values |= flatten(interpolations.resolved(value, key), key)
        return values


@cached_per_folder
def composition(task: str, model: str, conf: Path, *presets: str) -> Composition:
    """The composition of a task and a model, by their names.

    Args:
        presets: `experiment=...` and `debug=...`; none: the plain composition.
    """
    words = [f"task={task}", f"model={choice_named('model', model, conf)}", *presets]
    raw = with_slots(compose_unresolved(words, conf)[0], MECHANISM)
    keys = list(flatten(without_sections(Interpolations(raw).resolved(raw))))
    shorts = [key.partition(".")[2] or key for key in keys]
    counts = Counter(shorts)
    return Composition(
        raw, {key: short if counts[short] == 1 else key for key, short in zip(keys, shorts, strict=True)}
    )


def _grafted(plain: Any, actual: Any) -> Any:
    """`actual` with the interpolations of `plain`."""
    if isinstance(plain, str) and "${" in plain:
        return plain
    if isinstance(plain, dict) and isinstance(actual, Mapping):
        return {key: _grafted(plain[key], value) if key in plain else value for key, value in actual.items()}
    if isinstance(plain, list) and isinstance(actual, list) and len(plain) == len(actual):
        return [_grafted(*pair) for pair in zip(plain, actual, strict=True)]
    return actual


def _with_mechanism_in(slots: Any, mechanism: Any) -> Any:
    """Slots of a model with the mechanism wherever they refer to it."""
    if isinstance(slots, dict):
        return {name: _with_mechanism_in(item, mechanism) for name, item in slots.items()}
    if isinstance(slots, list):
        return [_with_mechanism_in(item, mechanism) for item in slots]
    return copied(mechanism) if slots == MECHANISM else slots


_CONFIG_FILE = "config.yaml"
_LONGEST, _DIGITS = 160, 10
"""characters of a tag, of a file name's 255; digits of a hash"""

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


def task_and_split(config: Mapping[str, Any]) -> str:
    """The label, and the split where the label lacks it: runs with equal values have the same test sets."""
    task, label = config["task"], run_label(config)
    return f"{label}-{task['split']}" if "split" in task and "split" not in label_options(task) else label


def run_tag(config: Mapping[str, Any], conf: Path = CONF) -> str:
    """The differences of a configuration as `key=value` joined by commas, or `default`.

    A key that follows another one (`attention_dropout: ${backbone.dropout}`) counts only if its value differs from it.
    A long tag, and one that names a preset, ends in a hash of all differences from the plain composition.
    """
    return tag_of(tag_parts(config, conf), config, conf)


def tag_of(differences: Mapping[str, str], config: Mapping[str, Any], conf: Path = CONF) -> str:
    """The tag of a configuration with these differences from the plain composition (`tag_parts`)."""
    parts = ordered(differences, config)
    presets = {group: str(config.get(group)) for group in PRESETS}
    presets = {group: choice for group, choice in presets.items() if choice in group_choices(conf)[group]}
    words = [f"{group}={choice}" for group, choice in presets.items()]
    from_preset = ordered(tag_parts(config, conf, *words), config) if presets else parts
    if from_preset == parts:
        return cut_tag(parts)
    names = (unique_text(choice.replace("/", "-")) for choice in presets.values())
    return ",".join([*filter(None, [_shortened(",".join(from_preset))]), *names, digest(parts)])


def ordered(parts: Mapping[str, str], config: Mapping[str, Any]) -> list[str]:
    """Differences (`tag_parts`) in the order of their importance, without bookkeeping."""
    return [parts[key] for key in sorted(parts.keys() - bookkeeping(config), key=_importance)]


def tag_parts(
    config: Mapping[str, Any], conf: Path = CONF, *presets: str, former: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Differences from the composition of this task and model by key, bookkeeping included: `key=value`.

    Args:
        presets: `experiment=...` and `debug=...` of the composition; none: the plain composition.
        former: defaults that the composition had in earlier versions, by the ends of their keys; null = no such key.
    """
    plain = composition(config["task"]["name"], config["model"]["name"], conf, *presets)
    config = with_former_values(with_filled_shares(_with_mechanism(config, plain)))
    actual = with_nulls(flatten(without_sections(config)))
    expected = with_nulls(_without_unused_defaults(plain.expected(config), actual))
    for key, name in _keys_of(former or {}, actual.keys() | expected.keys()):
        expected[key] = (former or {})[name]
        if expected[key] is None and actual.get(key) is None:
            expected.pop(key)
            actual.pop(key, None)
    shown = {f"task.{option}" for option in ("label", *label_options(config["task"]))}
    keys = (actual.keys() | expected.keys()) - shown
    return {
        key: f"{plain.suffixes.get(key, key)}={_text(actual, key)}" for key in keys if _differ(actual, expected, key)
    }


def _keys_of(names: Iterable[str], keys: Iterable[str]) -> list[tuple[str, str]]:
    """The keys that are one of these names or end in it, each with the name."""
    return [(key, name) for key in keys for name in names if key == name or key.endswith(f".{name}")]


def _with_mechanism(config: Mapping[str, Any], plain: Composition) -> dict[str, Any]:
    """A configuration with the mechanism of its model, which runs of versions before 0.4 did not record."""
    model = config["model"]
    return {**config, "model": {**model, "mechanism": model.get("mechanism") or plain.raw["model"].get("mechanism")}}


def cut_tag(parts: Sequence[str]) -> str:
    """Parts of a tag, joined; a long tag is cut at a comma and ends in a hash of the whole."""
    tag = ",".join(parts) or "default"
    return tag if len(tag) <= _LONGEST else f"{_shortened(tag)},{digest(parts)}"


def digest(parts: Sequence[str]) -> str:
    """The hash of all differences from the plain composition, at the end of a tag."""
    return hashlib.sha256((",".join(parts) or "default").encode()).hexdigest()[:_DIGITS]


def _shortened(text: str) -> str:
    """A text, cut at a comma if it is long."""
    return text if len(text) <= _LONGEST else text[:_LONGEST].rpartition(",")[0] or text[:_LONGEST]


def _importance(key: str) -> tuple[int, str]:
    """Place of a key in a tag: by the longest of its sections that `run_identity.yaml` lists."""
    words = key.split(".")
    sections = (".".join(words[:end]) for end in range(len(words), 0, -1))
    return next((_RANKS[section] for section in sections if section in _RANKS), len(_RANKS)), key


def run_folder(config: Mapping[str, Any], conf: Path = CONF) -> Path:
    """`<paths.runs>/<label>/<model>/<tag>/seed<k>`."""
    return folder_with(run_tag(config, conf), config)


def folder_with(tag: str, config: Mapping[str, Any]) -> Path:
    """The run folder of a configuration with this tag."""
    names = run_label(config), config["model"]["name"], tag, f"seed{config['seed']}"
    return Path(config["paths"]["runs"], *names)


def find_run_folder(config: Mapping[str, Any], conf: Path = CONF) -> Path:
    """The run folder of a configuration; the one with another of its names where only that exists.

    One configuration has a name under each preset that it was asked for by, and one without. A new seed joins the other
    seeds of its setting. `RunFolder.open_config` compares configurations.
    """
    parts = tag_parts(config, conf)
    named = folder_with(tag_of(parts, config, conf), config)
    if (named / _CONFIG_FILE).exists() or not named.parents[1].is_dir():
        return named
    plain = ordered(parts, config)
    others = (tag / named.name for tag in sorted(named.parents[1].glob(f"*,{digest(plain)}")))
    folders = [named, folder_with(cut_tag(plain), config), *others]
    with_run = (folder for folder in folders if (folder / _CONFIG_FILE).exists())
    return (
        next(with_run, None)
        or _former_folder(config, conf)
        or next((folder for folder in folders if folder.parent.is_dir()), named)
    )


def is_former_default(key: str, value: Any) -> bool:
    """Whether a value of a key was its default in earlier versions, for any task."""
    tables = _TABLE["former_defaults"].values()
    return any(table[name] == value for table in tables for _, name in _keys_of(table, [key]))


def _former_folder(config: Mapping[str, Any], conf: Path) -> Path | None:
    """The folder that earlier versions gave this run, if it has the run and not one of today's defaults."""
    table = _TABLE["former_defaults"]
    former = table["any"] | table.get(config["task"]["name"], {})
    folder = folder_with(tag_of(tag_parts(config, conf, former=former), config, conf), config)
    try:
        stored = flatten(yaml.load((folder / _CONFIG_FILE).read_text(encoding="utf-8"), LOADER))
    except (OSError, ValueError, AttributeError, yaml.YAMLError):
        return None
    actual = flatten(config)
    keys = [key for key, _ in _keys_of(former, actual.keys() | stored.keys())]
    return folder if all(unique_text(stored.get(key)) == unique_text(actual.get(key)) for key in keys) else None


def comparable(config: Mapping[str, Any]) -> dict[str, Any]:
    """A complete configuration without the sections of `NOT_IDENTITY` and `bookkeeping`, with shares as numbers, and
    without the model's mechanism, which its slots have."""
    aside = bookkeeping(config) | {"model.mechanism"}
    return {
        section: {key: value for key, value in values.items() if f"{section}.{key}" not in aside}
        if section in ("train", "model") and isinstance(values, Mapping)
        else values
        for section, values in without_sections(config).items()
    }


def identity(config: Mapping[str, Any]) -> dict[str, Any]:
    """Identity of a run, stored in every checkpoint: names, seed and a hash of the `comparable` configuration.

    Null counts as a missing key, so equal hashes mean no `differences`.

    Args:
        config: the content of the run's config.yaml; defaults that a later version adds must not change the hash.
    """
    values = {key: unique_text(value) for key, value in flatten(comparable(config)).items() if value is not None}
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
    names = {part: config[part]["name"] for part in ("task", "model")}
    return {**names, "seed": config["seed"], "configuration": digest}


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Lines `key: old -> new` for the keys whose values differ; null counts as a missing key.

    So a new key whose null means the behaviour of earlier versions changes no run.
    """
    old, new = flatten(a), flatten(b)
    set_keys = {key for values in (old, new) for key, value in values.items() if value is not None}
    changed = [key for key in sorted(set_keys) if _differ(old, new, key)]
    return [f"{key}: {' -> '.join(show(values.get(key, '(none)')) for values in (old, new))}" for key in changed]


def _differ(old: Mapping[str, Any], new: Mapping[str, Any], key: str) -> bool:
    """Whether a value is written differently, or only one is there."""
    value, other = old.get(key, MISSING), new.get(key, MISSING)
    # texts take time; equal values of one type have equal ones, but for lists, whose items may have different types
    if type(value) is type(other) and not isinstance(value, list) and value == other:
        return False
    return _text(old, key) != _text(new, key)


def _text(values: Mapping[str, Any], key: str) -> str:
    """A value as written in a tag; empty, unlike every value, if the key is missing."""
    return unique_text(values[key]) if key in values else ""


def _without_unused_defaults(expected: dict[str, Any], actual: Mapping[str, Any]) -> dict[str, Any]:
    """Expected values without options of attentions that `config` does not use, if these have their defaults.

    Args:
        expected, actual: flattened.
    """
    if expected.keys() <= actual.keys():
        return expected
    targets = {key: value for key, value in expected.items() if key.endswith("._target_")}
    of_classes = {
        key: former_value(target, key.rpartition(".")[2], value)
        for section, target in targets.items()
        for key, value in class_defaults(target, section.removesuffix("._target_"))
    }
    unused = [
        key
        for key in of_classes.keys() & expected.keys() - actual.keys()
        if _text(of_classes, key) == _text(expected, key)
    ]
    return {key: value for key, value in expected.items() if key not in unused}


def unique_text(value: Any) -> str:  # noqa: PLR0911
    """A value as unique text, safe in file names: equal numbers alike (1e-3, 0.001; 5, 5.0), lists joined by +."""
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
            # Lists of fewer than two items end with a plus, unlike the item alone.
            return "+".join(map(unique_text, value)) + ("+" if len(value) < 2 else "")
        case str():
            return quote(f"'{value}'" if _reads_otherwise(value) else value, safe="")
    return quote(repr(value), safe="")


def _reads_otherwise(text: str) -> bool:
    """Whether text without quotes would be read as a number, a truth value or null."""
    try:
        float(text)
    except ValueError:
        return text in ("", "null", "true", "false")
    return True
