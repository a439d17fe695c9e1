"""From a command line to the configurations of its jobs, as Hydra's basic sweeper runs them, and their problems."""

import copy
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from attnlab.config.apply_overrides import (
    Pair,
    Setter,
    as_text,
    first_line,
    followed_by_none,
    list_advice,
    overruled_by_model,
    references,
    resolve,
    set_all,
)
from attnlab.config.check import ConfigError, check_config
from attnlab.config.compose import CONF, compose_node, hydra_session, unresolved
from attnlab.config.defaults import completed
from attnlab.config.job_config import JobConfig, typed_job
from attnlab.config.launcher_validation import hydra_words, launcher_problems
from attnlab.config.overrides import Item, Words, group_problems, read_command, read_overrides
from attnlab.config.suggest import listed, show
from attnlab.config.target_validation import addable_keys


@dataclass(frozen=True)
class Command:
    """A checked command line.

    jobs:     in the order of their numbers.
    launcher: name and options of the launcher that runs the jobs of a sweep.
    choices:  words that list the swept choices of each group: Hydra's own globs match `_base`, and none in a subfolder.
    """

    multirun: bool
    jobs: list[JobConfig]
    launcher: dict[str, Any]
    choices: list[str]


def check_command(argv: Sequence[str], conf: Path = CONF) -> Command:
    """Check a whole command line (without the program's name), and every job of its sweep.

    Raises:
        ConfigError: with every problem of every word and every job.
    """
    found = expand(argv, conf)
    if found.problems:
        raise ConfigError(found.problems)
    jobs = [typed_job(config, conf) for config in found.configs]
    return Command(found.multirun, jobs, found.launcher, found.choices)


@dataclass(frozen=True)
class Expanded:
    """A command line taken apart into the complete configurations of its jobs, and all problems found on the way."""

    multirun: bool
    configs: list[dict[str, Any]]
    launcher: dict[str, Any]
    choices: list[str]
    problems: list[str]


def expand(argv: Sequence[str], conf: Path) -> Expanded:
    """Take a command line apart; problems are collected, none is raised."""
    words = read_command(argv, conf)
    with hydra_session(conf) as loader:
        return _Expansion(words, conf, loader).run()


@dataclass
class _Base:
    """One combination of group choices, with everything set that is not swept.

    references: last names of the keys that interpolations follow; None when they cannot be told.
    resolved:   by the swept values that others follow, the configuration without interpolations and its problems.
    """

    raw: dict[str, Any]
    addable: set[str]
    problems: list[str]
    references: set[str] | None
    resolved: dict[str, tuple[dict[str, Any] | None, list[str]]] = field(default_factory=dict)


class _Expansion:
    def __init__(self, words: Words, conf: Path, loader: Any) -> None:
        self.words, self.conf, self.loader = words, conf, loader
        self.problems = list(words.problems)
        self.hydra_texts: list[str] = []
        self.compositions: dict[tuple[str, ...], tuple[dict[str, Any] | None, dict[str, Any]]] = {}
        self.bases: dict[tuple[str, ...], _Base | None] = {}

    def run(self) -> Expanded:
        self.hydra_texts, problems = hydra_words(self.words, self.loader)
        self.problems += problems
        given, bad_groups = [], set()
        for item in (item for item in self.words.items if not item.is_hydra):
            problems = group_problems(item, self.conf) if item.group else []
            self.problems += problems
            bad_groups |= {item.key} if problems else set()
            given += [] if problems else [item]
        # Hydra composes once without the swept groups, to learn of the sweep itself.
        choices = tuple(as_text(item, item.values[0]) for item in given if item.group and not item.swept)
        master, settings = self._compose(choices)
        multirun = (self.words.multirun or settings["mode"] == "MULTIRUN") and not self.words.show_only
        items = self._with_sweeper_params(settings["params"], given) if multirun else given
        if not multirun and "experiment" not in bad_groups and not self.words.multirun:
            shown = self.words.show_only
            self.problems += [_not_a_sweep(item, master or {}, shown) for item in given if item.swept]
        self.problems += launcher_problems(settings["launcher"])
        jobs = self._jobs(items, multirun)
        if multirun and master is not None:
            self.problems += self._master_problems(master, given)
        choices = [f"{item.key}={','.join(map(show, item.values))}" for item in items if item.group and item.swept]
        problems = list(dict.fromkeys(self.problems))
        return Expanded(multirun, jobs, settings["launcher"], choices, problems)

    def _compose(self, choices: tuple[str, ...]) -> tuple[dict[str, Any] | None, dict[str, Any]]:
        """The unresolved configuration of these group choices, and Hydra's settings; kept."""
        if choices not in self.compositions:
            try:
                node, settings = compose_node([*self.hydra_texts, *choices])
                self.compositions[choices] = unresolved(node), settings
            except (HydraException, OmegaConfBaseException) as error:
                self.problems.append(f"{' '.join(choices) or 'conf'}: does not compose: {first_line(error)}")
                self.compositions[choices] = None, {"mode": None, "params": {}, "launcher": {"name": "basic"}}
        return self.compositions[choices]

    def _with_sweeper_params(self, params: Mapping[str, str], given: list[Item]) -> list[Item]:
        """As in Hydra's sweeper: params first, and a word of the command line replaces the param of the same key."""
        items, problems = read_overrides([f"{key}={value}" for key, value in params.items()], self.conf)
        by_key = {item.key: item for item in items} | {item.key: item for item in given}
        for item in list(by_key.values()):
            wrong = group_problems(item, self.conf) if item.group and item not in given else []
            if item.key == "experiment" and item.swept:
                wrong += [_own_sweep(value) for value in item.values if self._has_sweep(value)]
            if item.add and item.key in params:
                # Hydra's sweeper takes ++seed for another key than seed, and would run the same job again and again.
                wrong.append(f"{item.text}: swept by the experiment; write {item.text.lstrip('+')}")
            problems += wrong
            if wrong:
                del by_key[item.key]
        self.problems += problems
        return list(by_key.values())

    def _has_sweep(self, experiment: str | None) -> bool:
        if experiment is None:
            return False
        _, settings = self._compose((f"experiment={experiment}",))
        return settings["mode"] == "MULTIRUN" or bool(settings["params"])

    def _jobs(self, items: list[Item], multirun: bool) -> list[dict[str, Any]]:
        """Every job's configuration; a problem of some jobs only says of how many, and of one of them."""
        jobs, found, example, total = [], Counter(), {}, 0
        for total, pairs in enumerate(_product(items), start=1):  # noqa: B007
            config, problems = self._job(pairs)
            if config is not None:
                jobs.append(completed(config))
                problems = problems + check_config(jobs[-1], self.conf) + overruled_by_model(pairs, jobs[-1])
            for problem in dict.fromkeys(problems):
                found[problem] += 1
                example.setdefault(problem, " ".join(as_text(item, value) for item, value in pairs if item.swept))
        for problem, count in found.items():
            where = f" [{count} of {total} jobs, such as {example[problem]}]" if multirun and count < total else ""
            self.problems.append(problem + where)
        return jobs

    def _job(self, pairs: Sequence[Pair]) -> tuple[dict[str, Any] | None, list[str]]:
        base = self._base(pairs)
        if base is None:
            return None, []
        swept = [(item, value) for item, value in pairs if item.swept and not item.group]
        alone = [(item, value) for item, value in swept if followed_by_none(item, value, base.references)]
        others = [pair for pair in swept if pair not in alone]
        config, problems = self._resolved(base, others)
        if config is None:
            return None, base.problems + problems
        config = copy.deepcopy(config)
        return config, base.problems + problems + set_all(self._setter(config, base.addable), alone)

    def _base(self, pairs: Sequence[Pair]) -> _Base | None:
        choices = tuple(as_text(item, value) for item, value in pairs if item.group)
        if choices not in self.bases:
            raw, _ = self._compose(choices)
            if raw is None:
                self.bases[choices] = None
                return None
            raw = copy.deepcopy(raw)
            addable = addable_keys(raw)
            fixed = [(item, value) for item, value in pairs if not item.group and not item.swept]
            problems = set_all(self._setter(raw, addable), fixed)
            self.bases[choices] = _Base(raw, addable, problems, references(raw))
        return self.bases[choices]

    def _resolved(self, base: _Base, pairs: Sequence[Pair]) -> tuple[dict[str, Any] | None, list[str]]:
        key = repr([value for _, value in pairs])
        if key not in base.resolved:
            raw = copy.deepcopy(base.raw)
            problems = set_all(self._setter(raw, base.addable), pairs)
            config, error = resolve(raw)
            base.resolved[key] = config, [*problems, error] if error else problems
        return base.resolved[key]

    def _setter(self, config: dict[str, Any], addable: set[str]) -> Setter:
        # ++ is right for choices that have the key and for those that have not
        swept = any(item.group and item.swept for item in self.words.items)
        return Setter(config, addable, self.conf, "++" if swept else "+")

    def _master_problems(self, master: dict[str, Any], given: Sequence[Item]) -> list[str]:
        """Hydra sets what is not swept on a composition without the swept groups; a key missing there stops it."""
        swept = [item.key for item in given if item.group and item.swept]
        problems = []
        for item in (item for item in given if swept and item.values and not item.group and not item.swept):
            problem = Setter(copy.deepcopy(master), set(), self.conf).set(item, item.values[0])
            if problem and not any(other.startswith(f"{item.key}=") for other in self.problems):
                write = f"++{item.text.lstrip('+')}"
                problems.append(f"{item.text}: not known to the default {listed(swept)}; in this sweep write {write}")
        return problems


def _product(items: Sequence[Item]) -> Iterator[list[Pair]]:
    for combination in itertools.product(*(item.values or (None,) for item in items)):
        yield list(zip(items, combination, strict=True))


def _not_a_sweep(item: Item, config: Mapping[str, Any], shown: bool) -> str:
    text = f"{item.key}={','.join(map(show, item.values))}"
    if shown:
        return f"{text}: --cfg shows the configuration of one run; give one value{list_advice(item, config)}"
    return f"{text}: several values need -m (a sweep): python train.py -m ... {text}{list_advice(item, config)}"


def _own_sweep(name: str) -> str:
    return f"experiment={name}: has a sweep of its own; run experiments one after another, not in one sweep"
