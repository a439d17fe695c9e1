"""`JobConfig`, the configuration of one job: composed, completed with defaults, checked and typed once.

Importing this module registers the resolvers of yaml files with OmegaConf: `${choose:...}`, a value by case, and
`${run_of:...}`, the folder of another run.
"""

import copy
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from attnlab.config.command_line.overrides import list_advice, set_all
from attnlab.config.command_line.words import read_overrides
from attnlab.config.compose import compose_with_hydra
from attnlab.config.conf_files import choice_named
from attnlab.config.fill_defaults import completed, sort_sets
from attnlab.config.message_text import listed, show
from attnlab.config.problem import ConfigError, Problem
from attnlab.config.run_identity import find_run_folder, run_folder, run_label
from attnlab.config.schema import Config
from attnlab.config.shipped_files import CONF
from attnlab.config.targets import TargetError, foreign_targets
from attnlab.config.user_path import expanded, with_expanded_paths
from attnlab.config.validation.compatibility_rules import NETWORK_RULES
from attnlab.config.validation.data_rules import DATA_RULES, ignored_options
from attnlab.config.validation.rule_view import Unknown, View
from attnlab.config.validation.target_validation import model_problems, task_problems
from attnlab.config.validation.type_check import build, conform


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
        if item.group or item.is_hydra or item.delete or item.key in ("task.name", "task._target_"):
            problems.append(Problem(item.text, f": cannot be changed here{allowed}"))
        elif item.swept:
            problems.append(Problem(item.text, f": one value only{list_advice(item, changed)}"))
        elif wrong := set_all(changed, [(item, value)], conf):
            problems += wrong
        elif not item.key.startswith(tuple(allowed_prefixes)):
            problems.append(Problem(item.key, f"={show(value)}: cannot be changed here{allowed}"))
    sort_sets(changed)
    keys = {item.key for item in items}
    if not problems and not task_problems(changed["task"], conf):
        for ignored in ignored_options(changed["task"], conf):
            if f"task.{ignored.option}" not in keys:
                changed["task"][ignored.option] = ignored.default
    changed = with_expanded_paths(changed)
    problems += check_config(changed, conf)
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)), "evaluate.py")
    return typed_job(changed, conf)


def check_config(config: Mapping[str, Any], conf: Path = CONF) -> list[Problem]:
    """Problems of one complete, resolved configuration (`fill_defaults.completed`); empty if it can run."""
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


_trained_by: dict[str, str] = {}
"""run folders that `run_of` returned, each with its experiment; for messages only"""


def choose(case: Any, values: Mapping[Any, Any], otherwise: Any) -> Any:
    """The value of a case, for a key that depends on a swept one.

    `${choose:${model.feed_forward},{glu:2048},3072}` is 2048 if the feed-forward part is a GLU, else 3072.
    """
    return values.get(case, otherwise)


def run_of(experiment: str, model: str, seed: int, runs: str) -> str:
    """The run folder of an experiment for a model and a seed, below `paths.runs`; it need not exist.

    `${run_of:qin2022/table5_pretraining,${model.name},${seed},${paths.runs}}`
    """
    config = _composed(experiment, model)
    folder = str(find_run_folder(config | {"seed": seed, "paths": config["paths"] | {"runs": expanded(runs)}}))
    _trained_by[folder] = experiment
    return folder


def trained_by(folder: str) -> str | None:
    """The experiment that trains a run folder which `run_of` returned."""
    return _trained_by.get(folder)


@cache
def _composed(experiment: str, model: str) -> dict[str, Any]:
    return compose_config([f"experiment={experiment}", f"model={choice_named('model', model)}"])


OmegaConf.register_new_resolver("choose", choose, replace=True)
OmegaConf.register_new_resolver("run_of", run_of, replace=True)
