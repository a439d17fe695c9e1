"""`JobConfig`, the configuration of one job: composed, completed with defaults, checked and typed once."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import attnlab.config.resolvers  # noqa: F401  registers choose and run_of
from attnlab.config.check import ConfigError, check_config
from attnlab.config.command_line.overrides import list_advice, set_all
from attnlab.config.command_line.words import read_overrides
from attnlab.config.compose import compose_with_hydra
from attnlab.config.data_rules import ignored_options
from attnlab.config.fill_defaults import completed
from attnlab.config.message_text import listed, show
from attnlab.config.problem import Problem
from attnlab.config.run_identity import find_run_folder, run_folder, run_label
from attnlab.config.schema import Config
from attnlab.config.shipped_files import CONF
from attnlab.config.target_validation import task_problems
from attnlab.config.type_check import build


@dataclass(frozen=True)
class JobConfig:
    """The configuration of one job, made by `job_config`; everything that runs a job takes it.

    raw:    plain dicts and lists, complete, as in the run's config.yaml.
    typed:  the same, typed.
    report: the `report:` block of the experiment, which is no part of the run; None without one.
    conf:   the configuration folder.
    """

    raw: dict[str, Any]
    typed: Config = field(compare=False)
    report: dict[str, Any] | None = None
    conf: Path = CONF

    @cached_property
    def folder(self) -> Path:
        """The run folder; a setting that has one under another name stays there."""
        return find_run_folder(self.raw, self.conf)

    @property
    def has_other_name(self) -> bool:
        """Whether the setting has run folders under another name than this command gives it."""
        return self.folder != run_folder(self.raw, self.conf)

    @cached_property
    def label(self) -> str:
        """Task and split."""
        return run_label(self.raw)


def job_config(config: Mapping[str, Any], conf: Path = CONF) -> JobConfig:
    """The job of a composed, resolved configuration.

    Raises:
        ConfigError: it cannot run; with every problem.
    """
    full = completed(config)
    if problems := check_config(full, conf):
        raise ConfigError(problems)
    return typed_job(full, conf)


def typed_job(full: Mapping[str, Any], conf: Path = CONF) -> JobConfig:
    """The job of a complete configuration that passed the check."""
    raw = {key: value for key, value in full.items() if key != "report"}
    return JobConfig(raw, build(Config, raw), full.get("report"), conf)


def compose_config(overrides: Sequence[str], conf: Path = CONF) -> dict[str, Any]:
    """The complete configuration of a command line as plain dicts and lists, resolved but not checked.

    Raises:
        hydra.errors.HydraException: overrides that do not compose; `sweep.check_command` has better messages.
    """
    return completed(compose_with_hydra(overrides, conf)[0])


def apply_values(
    config: Mapping[str, Any], overrides: Sequence[str], allowed_prefixes: Sequence[str], conf: Path = CONF
) -> JobConfig:
    """The job of a complete configuration with `key=value` overrides.

    A task option that the newly chosen split does not read returns to its default.

    Args:
        allowed_prefixes: of the keys that may change.

    Raises:
        ConfigError: with every problem.
    """
    changed = copy.deepcopy(dict(config))
    items, problems = read_overrides(overrides, conf)
    allowed = f"; allowed: {listed(prefix + '*' if prefix.endswith('.') else prefix for prefix in allowed_prefixes)}"
    for item in items:
        value = item.values[0] if item.values else None
        if item.group or item.is_hydra or item.delete:
            problems.append(Problem(item.text, f": cannot be changed here{allowed}"))
        elif item.swept:
            problems.append(Problem(item.text, f": one value only{list_advice(item, changed)}"))
        elif wrong := set_all(changed, [(item, value)], conf):
            problems += wrong
        elif not item.key.startswith(tuple(allowed_prefixes)):
            problems.append(Problem(item.key, f"={show(value)}: cannot be changed here{allowed}"))
    given = {item.key for item in items}
    if not problems and not task_problems(changed["task"], conf):
        for found in ignored_options(changed["task"], conf):
            if f"task.{found.option}" not in given:
                changed["task"][found.option] = found.default
    problems += check_config(changed, conf)
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)), "evaluate.py")
    return typed_job(changed, conf)
