"""Words of a command line: flags, and overrides by Hydra's own parser.

Hydra stops at its first error. Here every word is read by itself, so that one message holds all problems.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, RangeSweep
from hydra.errors import HydraException

from attnlab.config.conf_files import NAMED, aliases, group_choices, task_yaml
from attnlab.config.dotted_keys import section_or_group
from attnlab.config.message_text import hint, listed, offered, show
from attnlab.config.nearest_word import choice, key_called, kin_of, named_key, nearest, nearest_named
from attnlab.config.problem import Problem
from attnlab.config.schema import schema_keys
from attnlab.config.shipped_files import CONF
from attnlab.config.user_path import PATH_OPTIONS

PLAN = "--plan"
MOST_JOBS = 100_000
"""jobs of a sweep; more are refused before they are expanded"""

_SHOWN = ("job", "hydra", "all")
_WITH_VALUE = {"--cfg": "job", "--package": "optim"}
"""flags with a value, and an example"""
_SHORT = {"-c": "--cfg", "-p": "--package", "-m": "--multirun", "-r": "--run", "-h": "--help"}
_SWITCHES = ("--multirun", "--resolve", "--run", "--help", "--version", PLAN)
_OWN_FILES = "what is checked here are the yamls of conf/; put yours there"
_NOT_OFFERED = {
    **dict.fromkeys(("config-dir", "config-path", "config-name", "cd", "cp", "cn"), _OWN_FILES),
    **dict.fromkeys(("info", "i"), "--cfg all prints Hydra's settings, --cfg job those of the run"),
    "hydra-help": "--help lists flags, groups and keys",
    **dict.fromkeys(("shell-completion", "sc"), "--help lists what can be completed"),
    "experimental-rerun": "the same command again resumes a run",
}
"""flags of Hydra that bypass the check or have no meaning here, and what to do instead"""
_OPTIONAL_GROUPS = ("experiment", "debug")


@dataclass(frozen=True)
class Item:
    """One override: `values` holds one value, or all values of a sweep; `add` is "", "+" or "++".

    interval: values are the ends of an interval, which only a search can sweep (`config.validation.search`).
    """

    text: str
    key: str
    values: tuple[Any, ...] = ()
    add: str = ""
    delete: bool = False
    swept: bool = False
    group: bool = False
    interval: bool = False

    @property
    def is_hydra(self) -> bool:
        """Whether it sets an option of Hydra itself, which has its own schema."""
        return self.key.startswith(("hydra.", "hydra/"))


def as_text(item: Item, value: Any) -> str:
    """`key=value`."""
    return f"{item.key}={show(value)}"


@dataclass
class Words:
    """The overrides and flags of a command line, and its problems.

    flags: by their long names, with the value of those that take one.
    """

    items: list[Item] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    flags: dict[str, str] = field(default_factory=dict)


def read_command(argv: Sequence[str], conf: Path) -> Words:
    """Reads a command line; unreadable words become problems."""
    words, texts, rest = Words(), [], with_our_names(argv, conf)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        flag = _SHORT.get(name, name)
        if not word.startswith("-"):
            texts.append(word)
        elif flag in _WITH_VALUE:
            if not equals and rest and re.fullmatch(r"[\w.]+", rest[0]):
                value = rest.pop(0)
            words.flags[flag] = value
        elif flag not in _SWITCHES:
            words.problems.append(_unknown_flag(word))
        elif equals:
            words.problems.append(Problem(word, f": {name} takes no value; write {name}"))
        else:
            words.flags[flag] = ""
    words.problems += _flag_problems(words.flags)
    words.items, problems = read_overrides(texts, conf)
    words.problems += problems
    return words


def _flag_problems(flags: Mapping[str, str]) -> Iterator[Problem]:
    """Problems of flags that lack a value, or have no effect together or alone."""
    for flag, example in _WITH_VALUE.items():
        if flags.get(flag) == "":
            yield Problem(flag, f": needs a value, such as {flag} {example}")
    shown = flags.get("--cfg")
    if shown and shown not in _SHOWN:
        yield Problem(f"--cfg {shown}", f": expected one of {listed(_SHOWN)}")
    if shown is None and (alone := flags.keys() & {"--package", "--resolve"}):
        yield Problem(listed(sorted(alone)), ": only with --cfg, whose output it changes; write --cfg job too")
    if shown is not None and (others := flags.keys() & {"--multirun", PLAN}):
        flag = listed(sorted(others)).replace("--multirun", "-m")
        yield Problem(f"{flag} with --cfg", f": one or the other; drop {flag} to see the configuration of one run")


def _unknown_flag(word: str) -> Problem:
    name, equals, value = word.lstrip("-").partition("=")
    if name in _NOT_OFFERED:
        return Problem(word, f": not offered: {_NOT_OFFERED[name]} (docs/configuration.md)")
    ours = name.replace("-", "_")
    key = name if "." in name or ours in sections() else named_key(ours, schema_keys()) or key_called(ours)
    if key or equals:
        near = key or nearest(name, [*schema_keys(), *sections()]) or name
        return Problem(word, f": unknown flag; nearest: {near}={value or '...'}")
    flags = [*_WITH_VALUE, *_SWITCHES]
    near = hint(nearest(word, flags))
    return Problem(word, f": unknown flag{near}; flags: {listed(flags)}; options are written key=value")


def read_overrides(texts: Sequence[str], conf: Path) -> tuple[list[Item], list[Problem]]:
    """Items and problems of the `key=value` words of a command line."""
    items: dict[str, Item] = {}
    problems = []
    for text in texts:
        if "=" not in text and not text.startswith("~"):
            group = next((group for group, choices in group_choices(conf).items() if text in choices), None)
            problems.append(Problem(text, f": expected key=value{hint(group and f'{group}={text}')}"))
            continue
        try:
            item = read_override(text, conf)
        except ValueError as error:
            problems.append(Problem(show(text), f": {error}"))
            continue
        if item.key in items:
            # of the first one, `sweep.Command` says whether there is such a choice
            problems += group_problems(item, conf) if item.group else []
            problems.append(Problem(text, f": {item.key} is already set by {items[item.key].text}; give it once"))
        items.setdefault(item.key, item)
    return list(items.values()), problems


def read_override(text: str, conf: Path) -> Item:
    """One override by Hydra's grammar; folders need no quotes.

    Raises:
        ValueError: what is wrong with it.
    """
    if re.search(r"\d{1000}", text):
        # Python refuses to parse numbers of some thousand digits.
        raise ValueError("a number of so many digits is taken for a slip")
    try:
        override = OverridesParser.create().parse_overrides([quoted_folder(text)])[0]
        values = _values(override, conf)
    except HydraException as error:
        raise ValueError(_unreadable(text, str(error))) from None
    key, swept = override.key_or_group, override.is_sweep_override()
    if not key or override.package:
        raise ValueError("expected key=value")
    if swept and not values:
        raise ValueError(f"a sweep without values; write a list such as {key}=0,1,2, or range(0,3)")
    twice = next((value for i, value in enumerate(values) if value in values[:i]), None) if swept else None
    if twice is not None:
        raise ValueError(f"{show(twice)} comes twice; two jobs would share one run folder")
    add = "++" if override.is_force_add() else "+" if override.is_add() else ""
    interval = override.is_interval_sweep()
    return Item(text, key, tuple(values), add, override.is_delete(), swept, key in group_choices(conf), interval)


def _values(override: Any, conf: Path) -> list[Any]:
    """The value of an override, or all values of its sweep in order."""
    key, value = override.key_or_group, override.value()
    if not override.is_sweep_override():
        return [] if override.is_delete() and override.value_type is None else [value]
    if isinstance(value, Glob):
        choices = group_choices(conf).get(key, [])
        if choices and not value.filter(choices):
            raise ValueError(f"matches no choice; {key}: {offered(choices)}")
        return value.filter(choices)
    if override.is_interval_sweep():
        return [value.start, value.end]
    if isinstance(value, RangeSweep) and value.step and _length(value) > MOST_JOBS:
        raise ValueError(f"more than {MOST_JOBS:,} jobs; give fewer values")
    # As in Hydra's sweeper: every value is written as text and parsed again.
    texts = [f"{key}={element}" for element in override.sweep_string_iterator()]
    return [element.value() for element in OverridesParser.create().parse_overrides(texts)]


def _length(numbers: RangeSweep) -> float:
    return ((numbers.stop or 0) - (numbers.start or 0)) / numbers.step


def _unreadable(text: str, error: str) -> str:
    key, _, value = text.partition("=")
    for opening, closing in ("[]", "{}", "()"):
        if value.count(opening) != value.count(closing):
            return f"brackets {opening}{closing} do not match"
    lines = [line for line in error.splitlines() if line and not line.startswith(("Error parsing", "See http"))]
    return f"cannot be read ({lines[0] if lines else 'syntax'}); quote special characters: {key}=\\'{value}\\'"


def group_problems(item: Item, conf: Path) -> list[Problem]:
    """Problems of a group choice such as `model=linaer`."""
    choices, optional = group_choices(conf)[item.key], item.key in _OPTIONAL_GROUPS
    if item.delete:
        return [Problem(item.text, ": a group cannot be removed" + (f"; write {item.key}=null" if optional else ""))]
    if item.add:
        return [Problem(item.text, f": {item.key} is always there; drop the plus: {item.text.lstrip('+')}")]
    problems = []
    for value in item.values:
        if value not in choices and not (optional and value is None):
            named = aliases(item.key, conf) if item.key in NAMED else None
            offer = choice(str(value), choices, item.key, named)
            if item.key == "model" and (kin := kin_of(str(value))):
                offer = f"; this mechanism is not in attnlab, {kin} is of its kind"
            if named is not None and not nearest_named(str(value), choices, named):
                offer += f"; docs/{item.key}s.md describes all, docs/extending.md shows how to add one"
            problems.append(Problem(item.key, f"={show(value)}: no such choice{offer}"))
    return problems


def with_our_names(argv: Sequence[str], conf: Path) -> list[str]:
    """The words without dashes before keys, and with the keys that the task has."""
    argv = [without_dashes(word, conf) for word in argv]
    chosen = {key: value for key, _, value in (word.partition("=") for word in argv) if key in ("task", "experiment")}
    if (name := chosen.get("task", "")) in group_choices(conf)["task"]:
        return with_data_set_names(argv, task_yaml(name, conf))
    # a preset that is asked for a name has data sets
    return with_data_set_names(argv, {"dataset": None} if "experiment" in chosen else {})


def without_dashes(word: str, conf: Path = CONF) -> str:
    """An override in the form of wandb's agents, `--optim.lr=0.001`, as `optim.lr=0.001`; else the word unchanged.

    They write Python's values: `None` stands for null.
    """
    key, equals, value = word.removeprefix("--").partition("=")
    if not (word.startswith("--") and equals) or section_or_group(key) not in sections(conf):
        return word
    return f"{key}={'null' if value == 'None' else value}"


def sections(conf: Path = CONF) -> set[str]:
    """First words of keys: sections and groups of the configuration, and Hydra's own."""
    return {*group_choices(conf), "hydra", *(key.partition(".")[0] for key in schema_keys())}


def quoted_folder(word: str) -> str:
    """An override with the path in quotes, if it sets one (`from_run=`, `paths.*=`); else the override unchanged.

    Folder names can hold blanks, brackets, equals signs and commas, which Hydra's grammar would interpret.
    """
    key, _, folder = word.partition("=")
    name = key.lstrip("+")
    if not (name.rpartition(".")[2] in (*PATH_OPTIONS, "submitit_folder") or name.startswith("paths.")):
        return word
    if folder[:1] in ("'", '"') or re.fullmatch(r"[\w./-]*", folder):
        return word
    # In quotes Hydra keeps a backslash, unless a quote follows.
    escaped = re.sub(r"(\\*)('|$)", lambda match: match[1] * 2 + ("\\'" if match[2] else ""), folder)
    return f"{key}='{escaped}'"


def with_data_set_names(words: Sequence[str], task: Mapping[str, Any]) -> list[str]:
    """The words with `task.name=cola` replaced by `task.dataset=cola`, as users of GLUE expect.

    Args:
        task: options of the task; without a `dataset` the words stay as they are.
    """
    if "dataset" not in task:
        return list(words)
    return [word.replace("task.name=", "task.dataset=", 1) if word.startswith("task.name=") else word for word in words]
