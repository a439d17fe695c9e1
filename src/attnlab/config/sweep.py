"""Jobs of a command line, in the order of Hydra's basic sweeper, or all problems of the command line."""

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from attnlab.config.command_line.overrides import (
    Pair,
    list_advice,
    misnamed,
    missing_mechanism,
    overruled_by_model,
    set_all,
)
from attnlab.config.command_line.words import (
    MOST_JOBS,
    Item,
    as_text,
    group_problems,
    quoted_folder,
    read_command,
    read_overrides,
)
from attnlab.config.compose import NO_SETTINGS, compose_unresolved
from attnlab.config.dotted_keys import MISSING, copied, section_or_group, value_at
from attnlab.config.fill_defaults import completed
from attnlab.config.interpolations import Interpolations
from attnlab.config.job_config import JobConfig, check_config, typed_job
from attnlab.config.message_text import first_line, listed, show
from attnlab.config.plain_yaml import yaml_problem
from attnlab.config.problem import ConfigError, Problem
from attnlab.config.run_identity import bookkeeping
from attnlab.config.schema import Config
from attnlab.config.shipped_files import CONF
from attnlab.config.validation.launcher_validation import hydra_words, launcher_problems
from attnlab.config.validation.report_names import require_known_names
from attnlab.config.validation.search import CHOSEN, Search, read_search
from attnlab.config.validation.type_check import conform

Composed = tuple[Mapping[str, Any] | None, Mapping[str, Any]]
"""the configuration, None if it does not compose, and Hydra's settings"""
MOST_WRONG = 100
"""jobs with a problem, after which the others of a sweep are not checked"""
WITHOUT_NUMBERS = ("hydra", "trainer", "logger")
"""sections that say where and how runs are trained, not which"""


def check_command(argv: Sequence[str], conf: Path = CONF) -> "Command":
    """Check a whole command line (without the program's name) and every job of its sweep.

    Raises:
        ConfigError: with every problem of every argument and every job.
    """
    command = Command(argv, conf)
    if command.problems:
        raise ConfigError(list(dict.fromkeys(command.problems)))
    # --cfg shows the first job of an experiment, which has one of its rows
    if "--cfg" not in command.flags:
        require_known_names(command.jobs[0].report if command.jobs else None, command.configs, argv)
    return command


class Command:
    """A command line and its jobs; problems are collected, not raised.

    Attributes:
        flags:    by their long names, with the value of those that take one.
        words:    the overrides of the command line; `hydra_items`: those of Hydra itself.
        items:    the overrides that make the jobs: those of the experiment's own sweep too.
        settings: Hydra's (`compose.compose_unresolved`).
        configs:  complete configurations of the jobs, in the order of their numbers.
        names:    of the jobs: the values that vary in the sweep, as `model=linear seed=0`.
        search:   how jobs are chosen if not by all combinations; the jobs are then corners of the search space.
    """

    def __init__(self, argv: Sequence[str], conf: Path) -> None:
        line, self.conf = read_command(argv, conf), conf
        self.flags, self.problems = line.flags, line.problems
        self.words = [item for item in line.items if not item.is_hydra]
        self.hydra_items = [item for item in line.items if item.is_hydra]
        self.configs: list[dict[str, Any]] = []
        self.names: list[str] = []
        self._compositions: dict[tuple[str, ...], Composed] = {}
        self._hydra_texts, problems = hydra_words(self.hydra_items, conf)
        self.problems += problems
        self._expand("--multirun" in self.flags)
        self.search: Search | None = None
        if self.multirun:
            items = [*self.items, *self.hydra_items]
            self.search, problems = read_search(self.settings["sweeper"], self.launcher["_name_"], items, self.configs)
            self.problems += problems

    @property
    def launcher(self) -> dict[str, Any]:
        """Name and options of the launcher that runs the jobs of a sweep."""
        launcher: dict[str, Any] = self.settings["launcher"]
        return launcher

    @cached_property
    def jobs(self) -> list[JobConfig]:
        """The jobs, in the order of their numbers."""
        return [typed_job(config, self.conf) for config in self._with_declared_seeds()]

    @property
    def swept(self) -> list[str]:
        """The keys that the command line itself gives several values."""
        return [item.key for item in self.words if item.swept]

    @property
    def run_words(self) -> list[str]:
        """The overrides of the command line that say which runs these are: without hardware, loggers and launchers."""
        return [item.text for item in self.words if section_or_group(item.key) not in WITHOUT_NUMBERS]

    @property
    def hydra_argv(self) -> list[str]:
        """The command line of the sweep for Hydra: folders in quotes, swept choices listed; its globs match `_base`."""
        texts = [quoted_folder(item.text) for item in (*self.words, *self.hydra_items)]
        swept = [item for item in self.items if item.group and item.swept]
        return ["--multirun", *texts, *(f"{item.key}={','.join(map(show, item.values))}" for item in swept)]

    def _expand(self, multirun: bool) -> None:
        """Find items, settings and jobs."""
        wrong = {item.key: group_problems(item, self.conf) for item in self.words if item.group}
        self.problems += itertools.chain(*wrong.values())
        self.items = [item for item in self.words if not wrong.get(item.key)]
        # Hydra composes once without the swept groups, to read the settings of the sweep.
        fixed = [(item, item.values[0]) for item in self.items if item.group and not item.swept]
        master, self.settings = self._composed(fixed)
        self.multirun = (multirun or self.settings["mode"] == "MULTIRUN") and "--cfg" not in self.flags
        if self.multirun:
            self.items = self._with_sweeper_params()
        elif not wrong.get("experiment") and not multirun:
            swept = [item for item in self.items if item.swept]
            self.problems += [_not_a_sweep(item, master or {}, "--cfg" in self.flags) for item in swept]
        self.problems += launcher_problems(self.launcher)
        self._make_jobs()
        self.problems += [
            Problem(item.text, f": {item.key} changes no number, so these jobs would be one run; give one value")
            for item in self.items
            if item.swept and self.configs and all(_changes_no_run(item.key, config) for config in self.configs)
        ]

    def _composed(self, pairs: Sequence[Pair]) -> Composed:
        """The unresolved configuration of choices of groups (None if it does not compose) and Hydra's settings."""
        # Hydra takes no null: an optional group without a word is empty.
        choices = tuple(as_text(item, value) for item, value in pairs if item.group and value is not None)
        if choices not in self._compositions:
            try:
                self._compositions[choices] = compose_unresolved([*self._hydra_texts, *choices], self.conf)
            except (HydraException, OmegaConfBaseException, RecursionError, yaml.YAMLError) as error:
                self.problems.append(Problem(" ".join(choices) or "conf", f": does not compose: {_cause(error)}"))
                self._compositions[choices] = None, NO_SETTINGS
        return self._compositions[choices]

    def _with_sweeper_params(self) -> list[Item]:
        """The overrides in the order of Hydra's sweeper: its params first; the command line replaces equal keys."""
        params = self.settings["params"]
        items, problems = read_overrides([f"{key}={value}" for key, value in params.items()], self.conf)
        by_key = {item.key: item for item in items} | {item.key: item for item in self.items}
        for item in list(by_key.values()):
            wrong = group_problems(item, self.conf) if item.group and item in items else []
            for value in item.values if item.key == "experiment" and item.swept else ():
                _, settings = self._composed([(item, value)])
                if settings["mode"] == "MULTIRUN" or settings["params"]:
                    advice = "run experiments one after another, not in one sweep"
                    wrong.append(Problem(item.key, f"={show(value)}: has a sweep of its own; {advice}"))
            if item.add and item.key in params:
                # Hydra's sweeper takes ++seed and seed for different keys, and would repeat the same job.
                wrong.append(Problem(item.text, f": swept by the experiment; write {item.text.lstrip('+')}"))
            problems += wrong
            if wrong:
                del by_key[item.key]
        self.problems += problems
        return list(by_key.values())

    def _make_jobs(self) -> None:
        """Make the configurations of all jobs; a problem of some is reported once, with their number and an example.

        After `MOST_WRONG` jobs with a problem it stops.
        """
        refused = bool(self.problems)
        # without -m several values are a problem already
        values = [(item.values if self.multirun else item.values[:1]) or (None,) for item in self.items]
        total = math.prod(map(len, values))
        if total > MOST_JOBS:
            advice = "give fewer values, or sweep in parts"
            self.problems.append(Problem(f"{total:,} jobs", f": more than {MOST_JOBS:,}; {advice}"))
            return
        jobs_with: dict[Problem, list[str]] = {}
        checked = wrong = 0
        for combination in itertools.product(*values):
            if wrong == MOST_WRONG:
                break
            pairs = list(zip(self.items, combination, strict=True))
            name = " ".join(as_text(item, value) for item, value in pairs if item.swept)
            config, problems = self._job(pairs, refused)
            if config is not None:
                self.configs.append(config)
                self.names.append(name or f"model={value_at(config, 'model.name')} seed={value_at(config, 'seed')}")
            checked, wrong = checked + 1, wrong + bool(problems)
            for problem in dict.fromkeys(problems):
                jobs_with.setdefault(problem, []).append(name)
        for problem, jobs in jobs_with.items():
            some = self.multirun and len(jobs) < checked
            count = f" [{len(jobs)} of {'' if checked == total else 'the first '}{checked} jobs, such as {jobs[0]}]"
            self.problems.append(problem.with_note(count) if some else problem)

    def _job(self, pairs: Sequence[Pair], refused: bool) -> tuple[dict[str, Any] | None, list[Problem]]:
        """The complete configuration of one job, None if it has none, and its problems.

        Where every override is already refused by itself, the checks that import classes are left out.

        Args:
            refused: whether the command line has a problem already.
        """
        composed, settings = self._composed(pairs)
        if composed is None:
            return None, []
        raw, values = copied(dict(composed)), [(item, value) for item, value in pairs if not item.group]
        # fixed values first, as Hydra's sweeper sets them
        problems = set_all(raw, sorted(values, key=lambda pair: pair[0].swept), self.conf)
        if missing := missing_mechanism(raw):
            problems.append(missing)
            # what refers to it is not looked at
            raw["model"] |= {"mechanism": None, "encoder": [], "decoder": None}
        try:
            config = Interpolations(raw).resolved(raw)
        except OmegaConfBaseException as error:
            key = getattr(error, "full_key", None) or "conf"
            return None, [*problems, Problem(key, f"={show(value_at(raw, key))}: {first_line(error)}")]
        wrong = [*problems, *conform(config, Config, "")]
        keys = {problem.key for problem in wrong}
        if missing:
            return None, wrong
        if (wrong or refused) and all(item.key in keys or item.text in keys for item, _ in pairs):
            return None, wrong
        full = completed(config)
        problems += misnamed(config, settings["choices"]) + check_config(full, self.conf)
        return full, problems + overruled_by_model(pairs, full)

    def _with_declared_seeds(self) -> list[dict[str, Any]]:
        """The configurations with all seeds and data seeds in their `report:` block, if they have one, where that
        names none."""
        seeds = {"seeds": self._declared("seed"), "data_seeds": self._declared("task.data_seed")}
        return [
            config | {"report": seeds | block} if (block := config.get("report")) else config for config in self.configs
        ]

    def _declared(self, key: str) -> list[int]:
        """The values of a seed that the experiment sweeps and those of the jobs.

        Empty where tasks have different values that are not swept.
        """
        values = {value_at(config, key) for config in self.configs} - {MISSING}
        if key in self.settings["params"]:
            items, _ = read_overrides([f"{key}={self.settings['params'][key]}"], self.conf)
            return sorted(values.union(*(item.values for item in items)))
        return sorted(values) if len(values) == 1 or any(item.key == key and item.swept for item in self.words) else []


def _changes_no_run(key: str, config: Mapping[str, Any]) -> bool:
    return section_or_group(key) in (*WITHOUT_NUMBERS, "cost", "report") or key in bookkeeping(config)


def _cause(error: Exception) -> str:
    """Why choices do not compose."""
    if isinstance(error, RecursionError):
        return "lists or sections nested too deep"
    return yaml_problem(error) if isinstance(error, yaml.YAMLError) else first_line(error)


def _not_a_sweep(item: Item, config: Mapping[str, Any], shown: bool) -> Problem:
    """What to write instead of several values for one run."""
    if item.interval:
        return Problem(item.text, f": an interval is searched, with -m and {CHOSEN}; give one value")
    values = listed(map(show, item.values[:12]), 12, number=len(item.values), separator=",")
    text, advice = f"{item.key}={values}", list_advice(item, config)
    if shown:
        return Problem(text, f": --cfg shows the configuration of one run; give one value{advice}")
    return Problem(text, f": several values need -m (a sweep): python train.py -m ... {text}{advice}")
