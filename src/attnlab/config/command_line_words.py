"""Reader of a command line: its flags, and its overrides by Hydra's own parser.

Hydra stops at its first error. Here every argument is read by itself, so that one message holds all problems.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnlab.config.compose import group_choices
from attnlab.config.message_text import choice, hint, listed, offered, show
from attnlab.config.nearest_word import key_called, named_key, nearest
from attnlab.config.rewritten_words import quoted_folder, sections, with_our_names
from attnlab.config.target_validation import schema_keys

PLAN = "--plan"
_SHORT = ("-m", "-c", "-p", "-r", "-h")
FLAGS = (*_SHORT, "--multirun", "--cfg", "--resolve", "--package", "--run", "--help", "--version", PLAN)
"""flags that are offered: ours, and Hydra's without those for another configuration folder, which bypass the check"""

_WITH_VALUE = {"--cfg": ("job", "hydra", "all"), "-c": ("job", "hydra", "all"), "--package": (), "-p": ()}
_NOT_OFFERED = ("config-dir", "config-path", "config-name", "cd", "cp", "cn", "experimental-rerun")
_OPTIONAL_GROUPS = ("experiment", "debug")


@dataclass(frozen=True)
class Item:
    """One override: `values` holds one value, or all values of a sweep; `add` is "", "+" or "++".

    interval: values are the ends of an interval, which only a search can sweep (`config.search`).
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
    """The overrides and flags of a command line, and its problems."""

    items: list[Item] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    multirun: bool = False
    show_only: bool = False
    data_set_named: bool = False

    def as_written(self, problem: str) -> str:
        """A problem with the key that the user wrote: `task.name` where it stands for `task.dataset`."""
        return problem.replace("task.dataset=", "task.name=", 1) if self.data_set_named else problem


def read_command(argv: Sequence[str], conf: Path) -> Words:
    """Reads a command line; unreadable arguments become problems."""
    words, texts, rest = Words(), [], with_our_names(argv, conf)
    # elsewhere the key is what it says, and a wrong one is reported as it is written
    words.data_set_named = any(word.lstrip("-").startswith("task.name=") for word in argv)
    words.data_set_named &= any(word.startswith("task.dataset=") for word in rest)
    while rest:
        word = rest.pop(0)
        name, _, value = word.partition("=")
        if not word.startswith("-"):
            texts.append(word)
        elif name not in FLAGS:
            follows = rest and "=" not in word + rest[0] and not rest[0].startswith(("-", "~", "+"))
            words.problems.append(_bad_flag(word, rest.pop(0) if follows else ""))
        elif name in _WITH_VALUE:
            words.show_only |= name in ("--cfg", "-c")
            value = value or (rest.pop(0) if rest else "")
            if _WITH_VALUE[name] and value not in _WITH_VALUE[name]:
                words.problems.append(f"{name} {value}: expected one of {listed(_WITH_VALUE[name])}")
        words.multirun |= name in ("--multirun", "-m")
    if words.multirun and words.show_only:
        words.problems.append("-m with --cfg: Hydra does one or the other; drop -m to see the configuration of one run")
    items, problems = read_overrides(texts, conf)
    words.items, words.problems = items, words.problems + problems
    return words


def flags_first(argv: Sequence[str]) -> list[str]:
    """The arguments with flags before overrides: Hydra's parser wants all overrides in one piece."""
    flags: list[str] = []
    words: list[str] = []
    for word in argv:
        wanted = bool(flags) and flags[-1] in _WITH_VALUE
        (flags if word.startswith("-") or wanted else words).append(word)
    return [*flags, *words]


def _bad_flag(word: str, following: str) -> str:
    """The problem of an unknown flag; `following` is the next argument, probably its value."""
    name, equals, value = word.lstrip("-").partition("=")
    if name in _NOT_OFFERED:
        return f"{word}: not offered: what is checked here are the yamls of conf/; put yours there"
    ours = name.replace("-", "_")
    key = name if "." in name else named_key(ours, schema_keys()) or key_called(ours)
    if key or equals or following:
        text = f"{word} {following}".rstrip()
        near = key or nearest(name, [*schema_keys(), *sections()]) or name
        return f"{text}: unknown flag; nearest: {near}={value or following or '...'}"
    flags = [flag for flag in FLAGS if flag.startswith("--")]
    flag = nearest(name, [flag.lstrip("-") for flag in flags])
    return f"{word}: unknown flag{hint(flag and '--' + flag)}; flags: {listed(flags)}; options are written key=value"


def read_overrides(texts: Sequence[str], conf: Path) -> tuple[list[Item], list[str]]:
    """Items and problems of the `key=value` arguments of a command line."""
    items, problems, rest = [], [], list(texts)
    while rest:
        text = rest.pop(0)
        if "=" not in text and not text.startswith("~"):
            value = rest.pop(0) if rest and "=" not in rest[0] and not rest[0].startswith("~") else None
            problems.append(_no_equals(text, value, conf))
            continue
        try:
            items.append(read_override(text, conf))
        except ValueError as error:
            problems.append(str(error))
    return _without_repeats(items, problems), problems


def _no_equals(text: str, value: str | None, conf: Path) -> str:
    if value is not None:
        return f"{text} {value}: missing =; write {text}={value}"
    group = next((group for group, choices in group_choices(conf).items() if text in choices), None)
    return f"{text}: expected key=value" + (f"; nearest: {group}={text}" if group else "")


def _without_repeats(items: list[Item], problems: list[str]) -> list[Item]:
    first: dict[str, Item] = {}
    for item in items:
        if item.key in first:
            problems.append(f"{item.text}: {item.key} is already set by {first[item.key].text}; give it once")
        first.setdefault(item.key, item)
    return list(first.values())


def read_override(text: str, conf: Path) -> Item:
    """One override by Hydra's grammar; folders need no quotes.

    Raises:
        ValueError: the problem, as a sentence.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    if re.search(r"\d{1000}", text):
        # Python refuses to parse numbers of some thousand digits.
        raise ValueError(f"{show(text)}: a number of so many digits is taken for a slip")
    try:
        override = OverridesParser.create().parse_overrides([quoted_folder(text)])[0]
        values = _values(override, conf)
    except HydraException as error:
        raise ValueError(_unreadable(text, str(error))) from None
    key, swept = override.key_or_group, override.is_sweep_override()
    if not key or override.package:
        raise ValueError(f"{text}: expected key=value")
    if swept and not values:
        raise ValueError(f"{text}: a sweep without values; write a list such as {key}=0,1,2, or range(0,3)")
    twice = next((value for i, value in enumerate(values) if value in values[:i]), None) if swept else None
    if twice is not None:
        raise ValueError(f"{text}: {show(twice)} comes twice; two jobs would share one run folder")
    add = "++" if override.is_force_add() else "+" if override.is_add() else ""
    interval = override.is_interval_sweep()
    return Item(text, key, tuple(values), add, override.is_delete(), swept, key in group_choices(conf), interval)


def _values(override: Any, conf: Path) -> list[Any]:
    """The value of an override, or all values of its sweep in order."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import Glob

    key, value = override.key_or_group, override.value()
    if not override.is_sweep_override():
        return [] if override.is_delete() and override.value_type is None else [value]
    if isinstance(value, Glob):
        choices = group_choices(conf).get(key, [])
        if choices and not value.filter(choices):
            raise ValueError(f"{override.input_line}: matches no choice; {key}: {offered(choices)}")
        return value.filter(choices)
    if override.is_interval_sweep():
        return [value.start, value.end]
    if not override.is_discrete_sweep():
        return []
    # As in Hydra's sweeper: every value is written as text and parsed again.
    texts = [f"{key}={element}" for element in override.sweep_string_iterator()]
    return [element.value() for element in OverridesParser.create().parse_overrides(texts)]


def _unreadable(text: str, error: str) -> str:
    key, _, value = text.partition("=")
    for opening, closing in ("[]", "{}", "()"):
        if value.count(opening) != value.count(closing):
            return f"{text}: brackets {opening}{closing} do not match"
    lines = [line for line in error.splitlines() if line and not line.startswith(("Error parsing", "See http"))]
    return f"{text}: cannot be read ({lines[0] if lines else 'syntax'}); quote special characters: {key}=\\'{value}\\'"


def group_problems(item: Item, conf: Path) -> list[str]:
    """Problems of a group choice such as `model=linaer`."""
    choices, optional = group_choices(conf)[item.key], item.key in _OPTIONAL_GROUPS
    if item.delete:
        return [f"{item.text}: a group cannot be removed" + (f"; write {item.key}=null" if optional else "")]
    if item.add:
        return [f"{item.text}: {item.key} is always there; drop the plus: {item.text.lstrip('+')}"]
    unknown = [value for value in item.values if value not in choices and not (optional and value is None)]
    return [f"{item.key}={show(value)}: no such choice{_offer(str(value), choices, item.key)}" for value in unknown]


def _offer(word: str, choices: Sequence[str], group: str) -> str:
    """The choices of a group; where none is near and a user can add one, the page on it."""
    addable = group in ("task", "model") and not nearest(word, choices)
    return choice(word, choices, group) + ("; docs/extending.md shows how to add one" if addable else "")
