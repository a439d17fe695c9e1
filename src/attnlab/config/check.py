"""Check of a configuration before anything runs: all problems in one message."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from attnlab.config.allowed_targets import TargetError, foreign_targets
from attnlab.config.compatibility_rules import NETWORK_RULES
from attnlab.config.data_rules import DATA_RULES
from attnlab.config.problem import Problem
from attnlab.config.rule_view import Unknown, View
from attnlab.config.schema import Config
from attnlab.config.shipped_files import CONF
from attnlab.config.target_validation import model_problems, task_problems
from attnlab.config.type_check import conform
from attnlab.config.user_error import UserError

_MOST_LINES = 40


class ConfigError(UserError):
    """A configuration that cannot run. `problems`: one sentence each; `str()`: the whole message."""

    def __init__(self, problems: Sequence[str], program: str = "train.py") -> None:
        super().__init__(problems)
        self.problems, self.program = list(problems), program

    def __str__(self) -> str:
        n = len(self.problems)
        lines = [f"{n} problem{'' if n == 1 else 's'} in the configuration, nothing was run:"]
        lines += [f"  - {problem}" for problem in self.problems[:_MOST_LINES]]
        lines += [f"  - ... and {n - _MOST_LINES} more"] if n > _MOST_LINES else []
        return "\n".join([*lines, f"`python {self.program} --help` lists what is allowed."])


def check_config(config: Mapping[str, Any], conf: Path = CONF) -> list[Problem]:
    """Problems of one complete, resolved configuration (`defaults.completed`); empty if it can run."""
    problems = conform(config, Config, "") + foreign_targets(config)
    if isinstance(config.get("task"), Mapping):
        problems += task_problems(config["task"], conf)
    if isinstance(config.get("model"), Mapping):
        problems += model_problems(config["model"], conf)
    broken = {problem.key for problem in problems}
    for rule in (*NETWORK_RULES, *DATA_RULES):
        # a rule that needs a wrong value says nothing
        with suppress(Unknown, TargetError):
            problems += rule(View(config, broken, conf))
    return list(dict.fromkeys(problems))
