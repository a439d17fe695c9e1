"""The check before anything runs: all problems of a command line or a configuration, in one message, without torch."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attnlab.config.apply_overrides import Setter, list_advice
from attnlab.config.compatibility_rules import ignored_options, rule_problems
from attnlab.config.compose import CONF
from attnlab.config.defaults import completed
from attnlab.config.overrides import read_overrides
from attnlab.config.plugins import foreign_targets
from attnlab.config.schema import Config
from attnlab.config.suggest import listed, show
from attnlab.config.target_validation import addable_keys, model_problems, task_problems
from attnlab.config.type_check import build, conform
from attnlab.config.view import View

_MOST_LINES = 40


class ConfigError(Exception):
    """A configuration that cannot run; `problems` holds one sentence each, str() the whole message."""

    def __init__(self, problems: Sequence[str], program: str = "train.py") -> None:
        super().__init__(problems)
        self.problems, self.program = list(problems), program

    def __str__(self) -> str:
        n = len(self.problems)
        lines = [f"{n} problem{'' if n == 1 else 's'} in the configuration, nothing was run:"]
        lines += [f"  - {problem}" for problem in self.problems[:_MOST_LINES]]
        lines += [f"  - ... and {n - _MOST_LINES} more"] if n > _MOST_LINES else []
        return "\n".join([*lines, f"`python {self.program} --help` lists what is allowed."])


def check_config(config: Mapping[str, Any], conf: Path = CONF) -> list[str]:
    """Problems of one composed, resolved configuration; empty when it can run."""
    config = completed(config)
    problems = conform(config, Config, "") + foreign_targets(config)
    if isinstance(config.get("task"), Mapping):
        problems += task_problems(config["task"], conf)
    if isinstance(config.get("model"), Mapping):
        problems += model_problems(config["model"], conf)
    broken = {key_of(problem) for problem in problems}
    return list(dict.fromkeys(problems + rule_problems(View(config, broken, conf))))


def key_of(problem: str) -> str:
    """The key a problem begins with."""
    return re.split(r"[=:\s]", problem, maxsplit=1)[0]


def checked(config: Mapping[str, Any], conf: Path = CONF) -> Config:
    """The typed configuration.

    Raises:
        ConfigError: with every problem.
    """
    problems = check_config(config, conf)
    if problems:
        raise ConfigError(problems)
    return build(Config, completed(config))


def apply_values(
    config: Mapping[str, Any], overrides: Sequence[str], allowed_prefixes: Sequence[str], conf: Path = CONF
) -> dict[str, Any]:
    """A resolved configuration with `key=value` overrides set; only keys with one of the prefixes may change.

    A task option that the newly chosen split does not read goes back to its default.

    Raises:
        ConfigError: with every problem.
    """
    changed = completed(config)
    setter = Setter(changed, addable_keys(changed), conf)
    items, problems = read_overrides(overrides, conf)
    allowed = f"; allowed: {listed(prefix + '*' if prefix.endswith('.') else prefix for prefix in allowed_prefixes)}"
    for item in items:
        value = item.values[0] if item.values else None
        if item.group or item.is_hydra or item.delete:
            problems.append(f"{item.text}: cannot be changed here{allowed}")
        elif item.swept:
            problems.append(f"{item.text}: one value only{list_advice(item, changed)}")
        elif problem := setter.set(item, value):
            problems.append(problem)
        elif not item.key.startswith(tuple(allowed_prefixes)):
            problems.append(f"{item.key}={show(value)}: cannot be changed here{allowed}")
    given = {item.key for item in items}
    if not problems and not task_problems(changed["task"], conf):
        for option, _, _, default in ignored_options(changed["task"], conf):
            if f"task.{option}" not in given:
                changed["task"][option] = default
    problems += check_config(changed, conf)
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)), "evaluate.py")
    return changed
