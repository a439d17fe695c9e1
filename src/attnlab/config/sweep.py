"""Jobs of a command line, in the order of Hydra's basic sweeper, or all problems of the command line."""

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from attnlab.config.apply_overrides import (
    Pair,
    Setter,
    followed_names,
    group_words,
    is_swept,
    job_name,
    misnamed,
    not_a_sweep,
    overruled_by_model,
    resolve,
)
from attnlab.config.check import ConfigError, check_config
from attnlab.config.command_line_words import Item, Words, as_text, group_problems, read_command, read_overrides
from attnlab.config.compose import compose_node, hydra_session, unresolved
from attnlab.config.dotted_keys import MISSING, copied, value_at
from attnlab.config.fill_defaults import completed
from attnlab.config.job_config import JobConfig, typed_job
from attnlab.config.launcher_validation import hydra_words, launcher_problems
from attnlab.config.message_text import first_line, listed, show
from attnlab.config.report_names import require_known_names
from attnlab.config.run_identity import bookkeeping
from attnlab.config.search import Search, read_search
from attnlab.config.shipped_files import CONF
from attnlab.config.target_validation import addable_keys

WITHOUT_NUMBERS = ("hydra", "trainer", "logger")
NO_SETTINGS: dict[str, Any] = {"mode": None, "params": {}, "launcher": {"name": "basic"}, "sweeper": {}, "choices": {}}


@dataclass(frozen=True)
class Command:
    """A checked command line.

    jobs:     in the order of their numbers.
    names:    of the jobs: the values that vary in the sweep, as `model=linear seed=0`.
    launcher: name and options of the launcher that runs the jobs of a sweep.
    search:   how jobs are chosen if not by all combinations; `jobs` are then corners of the search space.
    choices:  the swept choices of each group, listed; globs of Hydra would match `_base` and miss subfolders.
    swept:    the keys that the command line itself gives several values.
    words:    the overrides of the command line that say which runs these are: without hardware, loggers and launchers.
    """

    multirun: bool
    jobs: list[JobConfig]
    names: list[str]
    launcher: dict[str, Any]
    search: Search | None
    choices: list[str]
    swept: list[str]
    words: list[str]


def check_command(argv: Sequence[str], conf: Path = CONF) -> Command:
    """Check a whole command line (without the program's name) and every job of its sweep.

    Raises:
        ConfigError: with every problem of every argument and every job.
    """
    found = expand(argv, conf)
    if found.problems:
        raise ConfigError(found.problems)
    declared = {"seeds": found.declared("seed"), "data_seeds": found.declared("task.data_seed")}
    jobs = [typed_job(_with_seeds(config, declared), conf) for config in found.configs]
    words = [item.text for item in found.words.items if re.split("[./]", item.key)[0] not in WITHOUT_NUMBERS]
    # --cfg shows the first job of an experiment, which has one of its rows
    if not found.words.show_only:
        require_known_names(jobs[0].report if jobs else None, [job.raw for job in jobs], argv)
    return Command(found.multirun, jobs, found.names, found.launcher, found.search, found.choices, found.swept, words)


def _with_seeds(config: dict[str, Any], declared: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """A configuration with the declared seeds in its `report:` block, if it has one, where that names none."""
    block = config.get("report")
    return config | {"report": {key: list(seeds) for key, seeds in declared.items()} | block} if block else config


def expand(argv: Sequence[str], conf: Path) -> "Expansion":
    """Expand a command line into its jobs; problems are collected, not raised."""
    words = read_command(argv, conf)
    with hydra_session(conf) as loader:
        return Expansion(words, conf, loader)


class _Composition:
    """One combination of group choices with all fixed values; the swept values make its jobs.

    Resolving interpolations is slow. So values that no interpolation refers to (seeds, learning rates) are set after
    it, and jobs that differ in such values only share one resolved configuration.
    """

    def __init__(self, raw: dict[str, Any], fixed: Sequence[Pair], conf: Path, plus: str) -> None:
        self.raw, self.addable, self.conf, self.plus = raw, addable_keys(raw), conf, plus
        self.problems = self._setter(raw).set_all(fixed)
        self.followed = followed_names(raw)
        self.resolved: dict[str, tuple[dict[str, Any] | None, list[str]]] = {}

    def job(self, swept: Sequence[Pair]) -> tuple[dict[str, Any] | None, list[str]]:
        """The resolved configuration with the swept values, or None if that fails, and all problems."""
        late = [(item, value) for item, value in swept if self._followed_by_none(item, value)]
        config, problems = self._resolved([pair for pair in swept if pair not in late])
        config = copied(config)
        return config, self.problems + problems + (self._setter(config).set_all(late) if config is not None else [])

    def _setter(self, config: dict[str, Any]) -> Setter:
        return Setter(config, self.addable, self.conf, self.plus)

    def _followed_by_none(self, item: Item, value: Any) -> bool:
        simple = not isinstance(value, (dict, list)) and "${" not in str(value)
        return simple and self.followed is not None and self.followed.isdisjoint(item.key.split("."))

    def _resolved(self, pairs: Sequence[Pair]) -> tuple[dict[str, Any] | None, list[str]]:
        key = repr([value for _, value in pairs])
        if key not in self.resolved:
            raw = copied(self.raw)
            problems = self._setter(raw).set_all(pairs)
            config, error = resolve(raw)
            self.resolved[key] = config, [*problems, error] if error else problems
        return self.resolved[key]


class Expansion:
    """Expansion of a command line into jobs.

    Attributes:
        configs, names: complete configurations and names of the jobs, in the order of their numbers.
        problems: of the command line and of all jobs.
        multirun, launcher, choices, swept: as in `Command`.
    """

    def __init__(self, words: Words, conf: Path, loader: Any) -> None:
        self.words, self.conf = words, conf
        self.hydra_texts, problems = hydra_words(words, loader)
        self.problems = words.problems + problems
        self.composed: dict[tuple[str, ...], tuple[dict[str, Any] | None, dict[str, Any]]] = {}
        self.compositions: dict[tuple[str, ...], _Composition] = {}
        self.names: list[str] = []
        self._expand()

    def _expand(self) -> None:
        given, bad_groups = [], set()
        for item in (item for item in self.words.items if not item.is_hydra):
            problems = group_problems(item, self.conf) if item.group else []
            self.problems += problems
            bad_groups |= {item.key} if problems else set()
            given += [] if problems else [item]
        self.swept = [item.key for item in given if item.swept]
        # Hydra composes once without the swept groups, to read the settings of the sweep.
        chosen = [(item, item.values[0]) for item in given if item.group and not item.swept]
        master, settings = self._compose(group_words(chosen))
        self.multirun = (self.words.multirun or settings["mode"] == "MULTIRUN") and not self.words.show_only
        items = self._with_sweeper_params(settings["params"], given) if self.multirun else given
        if not self.multirun and "experiment" not in bad_groups and not self.words.multirun:
            shown = self.words.show_only
            self.problems += [not_a_sweep(item, master or {}, shown) for item in given if is_swept(item, master)]
        self.launcher = settings["launcher"]
        self.problems += launcher_problems(self.launcher)
        self.configs = self._jobs(items)
        self.params = settings["params"]
        self.search, problems = self._search(settings["sweeper"], items) if self.multirun else (None, [])
        self.problems += problems
        if self.multirun and master is not None:
            self.problems += self._master_problems(master, given)
        self.problems += [
            f"{item.text}: {item.key} changes no number, so these jobs would be one run; give one value"
            for item in items
            if item.swept and self.configs and all(item.key in bookkeeping(config) for config in self.configs)
        ]
        self.choices = [f"{item.key}={','.join(map(show, item.values))}" for item in items if item.group and item.swept]
        self.problems = [self.words.as_written(problem) for problem in dict.fromkeys(self.problems)]

    def declared(self, key: str) -> list[int]:
        """The values of a seed that the experiment sweeps and those of the jobs; of an expansion without problems.

        Empty where tasks have different values that are not swept.
        """
        values = {value_at(config, key) for config in self.configs} - {MISSING}
        if key in self.params:
            items, _ = read_overrides([f"{key}={self.params[key]}"], self.conf)
            return sorted(values.union(*(item.values for item in items)))
        return sorted(values) if key in self.swept or len(values) == 1 else []

    def _compose(self, choices: tuple[str, ...]) -> tuple[dict[str, Any] | None, dict[str, Any]]:
        """The unresolved configuration of these group choices (None if it does not compose) and Hydra's settings."""
        if choices not in self.composed:
            try:
                node, settings = compose_node([*self.hydra_texts, *choices])
                self.composed[choices] = unresolved(node), settings
            except (HydraException, OmegaConfBaseException, RecursionError) as error:
                cause = "lists or sections nested too deep" if isinstance(error, RecursionError) else first_line(error)
                self.problems.append(f"{' '.join(choices) or 'conf'}: does not compose: {cause}")
                self.composed[choices] = None, NO_SETTINGS
        return self.composed[choices]

    def _with_sweeper_params(self, params: Mapping[str, str], given: list[Item]) -> list[Item]:
        """The overrides in the order of Hydra's sweeper: its params first; the command line replaces equal keys."""
        items, problems = read_overrides([f"{key}={value}" for key, value in params.items()], self.conf)
        by_key = {item.key: item for item in items} | {item.key: item for item in given}
        for item in list(by_key.values()):
            wrong = group_problems(item, self.conf) if item.group and item not in given else []
            if item.key == "experiment" and item.swept:
                with_sweep = [value for value in item.values if self._has_sweep(value)]
                advice = "run experiments one after another, not in one sweep"
                wrong += [f"experiment={value}: has a sweep of its own; {advice}" for value in with_sweep]
            if item.add and item.key in params:
                # Hydra's sweeper takes ++seed and seed for different keys, and would repeat the same job.
                wrong.append(f"{item.text}: swept by the experiment; write {item.text.lstrip('+')}")
            problems += wrong
            if wrong:
                del by_key[item.key]
        self.problems += problems
        return list(by_key.values())

    def _search(self, sweeper: Mapping[str, Any], items: Sequence[Item]) -> tuple[Search | None, list[str]]:
        of_hydra = [item for item in self.words.items if item.is_hydra]
        return read_search(sweeper, self.launcher["name"], [*items, *of_hydra], self.configs)

    def _has_sweep(self, experiment: str | None) -> bool:
        if experiment is None:
            return False
        _, settings = self._compose((f"experiment={experiment}",))
        return settings["mode"] == "MULTIRUN" or bool(settings["params"])

    def _jobs(self, items: list[Item]) -> list[dict[str, Any]]:
        """Configurations of all jobs; a problem of some jobs is reported once, with their number and an example."""
        jobs: list[dict[str, Any]] = []
        found, example, total = Counter[str](), dict[str, str](), 0
        values = itertools.product(*(item.values or (None,) for item in items))
        for total, combination in enumerate(values, start=1):  # noqa: B007
            pairs = list(zip(items, combination, strict=True))
            config, problems = self._job(pairs)
            if config is not None:
                jobs.append(completed(config))
                self.names.append(job_name(pairs, jobs[-1]))
                problems = problems + check_config(jobs[-1], self.conf) + overruled_by_model(pairs, jobs[-1])
            for problem in dict.fromkeys(problems):
                found[problem] += 1
                example.setdefault(problem, " ".join(as_text(item, value) for item, value in pairs if item.swept))
        for problem, count in found.items():
            where = f" [{count} of {total} jobs, such as {example[problem]}]" if self.multirun and count < total else ""
            self.problems.append(problem + where)
        return jobs

    def _job(self, pairs: Sequence[Pair]) -> tuple[dict[str, Any] | None, list[str]]:
        choices = group_words(pairs)
        raw, settings = self._compose(choices)
        if raw is None:
            return None, []
        if choices not in self.compositions:
            fixed = [(item, value) for item, value in pairs if not item.group and not item.swept]
            # ++ is right both for choices that have a key and for those that lack it.
            plus = "++" if any(item.group and item.swept for item in self.words.items) else "+"
            self.compositions[choices] = _Composition(copied(raw), fixed, self.conf, plus)
        swept = [(item, value) for item, value in pairs if item.swept and not item.group]
        config, problems = self.compositions[choices].job(swept)
        return config, problems + (misnamed(config, settings["choices"]) if config is not None else [])

    def _master_problems(self, master: dict[str, Any], given: Sequence[Item]) -> list[str]:
        """Problems that Hydra finds when it sets fixed values before it has the choices of the swept groups."""
        swept = [item.key for item in given if item.group and item.swept]
        problems = []
        for item in (item for item in given if swept and item.values and not item.group and not item.swept):
            problem = Setter(copied(master), set(), self.conf).set(item, item.values[0])
            if problem and not any(other.startswith(f"{item.key}=") for other in self.problems):
                write = f"++{item.text.lstrip('+')}"
                problems.append(f"{item.text}: not known to the default {listed(swept)}; in this sweep write {write}")
        return problems
