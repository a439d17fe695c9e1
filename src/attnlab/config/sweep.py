"""Jobs of a command line, in the order of Hydra's basic sweeper, or all problems of the command line."""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from attnlab.config.command_line.overrides import Pair, list_advice, misnamed, overruled_by_model, resolved, set_all
from attnlab.config.command_line.words import MOST_JOBS, Item, as_text, group_problems, read_command, read_overrides
from attnlab.config.compose import compose_node, hydra_session
from attnlab.config.conf_files import unresolved
from attnlab.config.dotted_keys import MISSING, copied, value_at
from attnlab.config.fill_defaults import completed
from attnlab.config.job_config import JobConfig, check_config, typed_job
from attnlab.config.launcher_validation import hydra_words, launcher_problems
from attnlab.config.message_text import first_line, listed, show
from attnlab.config.problem import Problem
from attnlab.config.report_names import require_known_names
from attnlab.config.run_identity import bookkeeping
from attnlab.config.schema import Config
from attnlab.config.search import Search, read_search
from attnlab.config.shipped_files import CONF
from attnlab.config.type_check import conform
from attnlab.config.user_error import ConfigError

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
    sweep = expand(argv, conf)
    if sweep.problems:
        raise ConfigError(sweep.problems)
    seeds = {"seeds": sweep.declared("seed", conf), "data_seeds": sweep.declared("task.data_seed", conf)}
    jobs = [typed_job(_with_seeds(config, seeds), conf) for config in sweep.configs]
    words = [item.text for item in sweep.words if re.split("[./]", item.key)[0] not in WITHOUT_NUMBERS]
    # --cfg shows the first job of an experiment, which has one of its rows
    if not sweep.show_only:
        require_known_names(jobs[0].report if jobs else None, [job.raw for job in jobs], argv)
    choices = [f"{item.key}={','.join(map(show, item.values))}" for item in sweep.items if item.group and item.swept]
    swept = [item.key for item in sweep.words if item.swept]
    return Command(sweep.multirun, jobs, sweep.names, sweep.settings["launcher"], sweep.search, choices, swept, words)


def _with_seeds(config: dict[str, Any], declared: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """A configuration with the declared seeds in its `report:` block, if it has one, where that names none."""
    block = config.get("report")
    return config | {"report": {key: list(seeds) for key, seeds in declared.items()} | block} if block else config


@dataclass
class Sweep:
    """The expansion of a command line.

    problems: of the command line and of all jobs.
    words:    the overrides of the command line.
    items:    the overrides that make the jobs: those of the experiment's own sweep too.
    settings: Hydra's (`compose.compose_node`).
    configs:  complete configurations of the jobs, in the order of their numbers; `names` as in `Command`.
    """

    problems: list[Problem]
    words: list[Item]
    show_only: bool
    multirun: bool = False
    items: list[Item] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=lambda: NO_SETTINGS)
    configs: list[dict[str, Any]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    search: Search | None = None

    def declared(self, key: str, conf: Path) -> list[int]:
        """The values of a seed that the experiment sweeps and those of the jobs; of a sweep without problems.

        Empty where tasks have different values that are not swept.
        """
        values = {value_at(config, key) for config in self.configs} - {MISSING}
        if key in self.settings["params"]:
            items, _ = read_overrides([f"{key}={self.settings['params'][key]}"], conf)
            return sorted(values.union(*(item.values for item in items)))
        return sorted(values) if len(values) == 1 or any(item.key == key and item.swept for item in self.words) else []


def expand(argv: Sequence[str], conf: Path) -> Sweep:
    """Expand a command line into its jobs; problems are collected, not raised."""
    words = read_command(argv, conf)
    sweep = Sweep(list(words.problems), [item for item in words.items if not item.is_hydra], words.show_only)
    with hydra_session(conf) as loader:
        texts, problems = hydra_words(words, loader)
        sweep.problems += _without_key(problems)
        compositions = _Compositions(texts, conf)
        _expand(sweep, words.multirun, compositions)
        sweep.search, problems = _search(sweep, [item for item in words.items if item.is_hydra])
    sweep.problems = list(dict.fromkeys([*sweep.problems, *_without_key(problems)]))
    return sweep


def _without_key(sentences: Sequence[str]) -> list[Problem]:
    """Problems of launchers and searches, whose keys nothing asks for."""
    return [Problem("", sentence) for sentence in sentences]


class _Compositions:
    """What Hydra composes of choices of groups, once each.

    Args:
        texts: the overrides of Hydra itself.
    """

    def __init__(self, texts: Sequence[str], conf: Path) -> None:
        self.texts, self.conf = texts, conf
        self.made: dict[tuple[str, ...], tuple[dict[str, Any] | None, dict[str, Any]]] = {}
        self.problems: list[Problem] = []

    def get(self, pairs: Sequence[Pair]) -> tuple[dict[str, Any] | None, dict[str, Any]]:
        """The unresolved configuration of these choices (None if it does not compose) and Hydra's settings."""
        # Hydra takes no null: an optional group without a word is empty.
        choices = tuple(as_text(item, value) for item, value in pairs if item.group and value is not None)
        if choices not in self.made:
            try:
                node, settings = compose_node([*self.texts, *choices])
                self.made[choices] = unresolved(node), settings
            except (HydraException, OmegaConfBaseException, RecursionError) as error:
                cause = "lists or sections nested too deep" if isinstance(error, RecursionError) else first_line(error)
                self.problems.append(Problem(" ".join(choices) or "conf", f": does not compose: {cause}"))
                self.made[choices] = None, NO_SETTINGS
        return self.made[choices]


def _expand(sweep: Sweep, multirun: bool, compositions: _Compositions) -> None:
    """Find items, settings and jobs of a sweep, and their problems."""
    wrong = {item.key: group_problems(item, compositions.conf) for item in sweep.words if item.group}
    sweep.problems += itertools.chain(*wrong.values())
    sweep.items = [item for item in sweep.words if not wrong.get(item.key)]
    # Hydra composes once without the swept groups, to read the settings of the sweep.
    master, sweep.settings = compositions.get(
        [(item, item.values[0]) for item in sweep.items if item.group and not item.swept]
    )
    sweep.multirun = (multirun or sweep.settings["mode"] == "MULTIRUN") and not sweep.show_only
    if sweep.multirun:
        sweep.items = _with_sweeper_params(sweep, compositions)
    elif not wrong.get("experiment") and not multirun:
        sweep.problems += [_not_a_sweep(item, master or {}, sweep.show_only) for item in _swept(sweep.items, master)]
    sweep.problems += _without_key(launcher_problems(sweep.settings["launcher"]))
    _make_jobs(sweep, compositions)
    sweep.problems += compositions.problems
    if sweep.multirun and master is not None:
        sweep.problems += _unknown_to_hydra(sweep, master)
    sweep.problems += [
        Problem(item.text, f": {item.key} changes no number, so these jobs would be one run; give one value")
        for item in sweep.items
        if item.swept and sweep.configs and all(item.key in bookkeeping(config) for config in sweep.configs)
    ]


def _with_sweeper_params(sweep: Sweep, compositions: _Compositions) -> list[Item]:
    """The overrides in the order of Hydra's sweeper: its params first; the command line replaces equal keys."""
    params = sweep.settings["params"]
    items, problems = read_overrides([f"{key}={value}" for key, value in params.items()], compositions.conf)
    by_key = {item.key: item for item in items} | {item.key: item for item in sweep.items}
    for item in list(by_key.values()):
        wrong = group_problems(item, compositions.conf) if item.group and item in items else []
        for value in item.values if item.key == "experiment" and item.swept else ():
            _, settings = compositions.get([(item, value)])
            if settings["mode"] == "MULTIRUN" or settings["params"]:
                advice = "run experiments one after another, not in one sweep"
                wrong.append(Problem(item.key, f"={show(value)}: has a sweep of its own; {advice}"))
        if item.add and item.key in params:
            # Hydra's sweeper takes ++seed and seed for different keys, and would repeat the same job.
            wrong.append(Problem(item.text, f": swept by the experiment; write {item.text.lstrip('+')}"))
        problems += wrong
        if wrong:
            del by_key[item.key]
    sweep.problems += problems
    return list(by_key.values())


def _swept(items: Sequence[Item], config: Mapping[str, Any] | None) -> list[Item]:
    """The overrides with several values, but for unknown keys, whose name is the problem."""
    known = [item for item in items if item.group or item.add or value_at(config or {}, item.key) is not MISSING]
    return [item for item in (items if config is None else known) if item.swept]


def _not_a_sweep(item: Item, config: Mapping[str, Any], shown: bool) -> Problem:
    """What to write instead of several values for one run."""
    text = item.swept_text
    if shown:
        return Problem(text, f": --cfg shows the configuration of one run; give one value{list_advice(item, config)}")
    return Problem(
        text, f": several values need -m (a sweep): python train.py -m ... {text}{list_advice(item, config)}"
    )


def _search(sweep: Sweep, of_hydra: Sequence[Item]) -> tuple[Search | None, list[str]]:
    if not sweep.multirun:
        return None, []
    launcher, sweeper = sweep.settings["launcher"]["name"], sweep.settings["sweeper"]
    return read_search(sweeper, launcher, [*sweep.items, *of_hydra], sweep.configs)


def _make_jobs(sweep: Sweep, compositions: _Compositions) -> None:
    """Make the configurations of all jobs; a problem of some is reported once, with their number and an example."""
    refused = bool(sweep.problems)
    values = [item.values or (None,) for item in sweep.items]
    total = math.prod(map(len, values))
    if total > MOST_JOBS:
        advice = "give fewer values, or sweep in parts"
        sweep.problems.append(Problem(f"{total:,} jobs", f": more than {MOST_JOBS:,}; {advice}"))
        return
    jobs_with: dict[Problem, list[str]] = {}
    for combination in itertools.product(*values):
        pairs = list(zip(sweep.items, combination, strict=True))
        name = " ".join(as_text(item, value) for item, value in pairs if item.swept)
        config, problems = _job(pairs, compositions, refused)
        if config is not None:
            sweep.configs.append(config)
            sweep.names.append(name or f"model={config['model']['name']} seed={config['seed']}")
        for problem in dict.fromkeys(problems):
            jobs_with.setdefault(problem, []).append(name)
    for problem, jobs in jobs_with.items():
        some = sweep.multirun and len(jobs) < total
        where = f" [{len(jobs)} of {total} jobs, such as {jobs[0]}]" if some else ""
        sweep.problems.append(Problem(problem.key, problem.text + where))


def _job(
    pairs: Sequence[Pair], compositions: _Compositions, refused: bool
) -> tuple[dict[str, Any] | None, list[Problem]]:
    """The complete configuration of one job, None if it has none, and its problems.

    Where every override is wrong by itself, no class is read: nothing of the command line is left to check.

    Args:
        refused: whether the command line has a problem already.
    """
    raw, settings = compositions.get(pairs)
    if raw is None:
        return None, []
    raw, values = copied(raw), [(item, value) for item, value in pairs if not item.group]
    # ++ is right both for choices that have a key and for those that lack it.
    plus = "++" if any(item.group and item.swept for item, _ in pairs) else "+"
    # fixed values first, as Hydra's sweeper sets them
    problems = set_all(raw, sorted(values, key=lambda pair: pair[0].swept), compositions.conf, plus)
    config, errors = resolved(raw, values)
    if config is None:
        # the problems of the other overrides too
        others = [pair for pair in pairs if "${" not in str(pair[1])]
        return None, problems + errors + (_job(others, compositions, True)[1] if len(others) < len(pairs) else [])
    wrong = [*problems, *conform(config, Config, "")]
    keys = {problem.key for problem in wrong}
    if (wrong or refused) and all(item.key in keys or item.text in keys for item, _ in pairs):
        return None, wrong
    full = completed(config)
    problems += misnamed(config, settings["choices"]) + check_config(full, compositions.conf)
    return full, problems + overruled_by_model(pairs, full)


def _unknown_to_hydra(sweep: Sweep, master: Mapping[str, Any]) -> list[Problem]:
    """Problems that Hydra finds when it sets fixed values before it has the choices of the swept groups."""
    groups = [item.key for item in sweep.words if item.group and item.swept]
    fixed = [item for item in sweep.words if groups and item.values and not (item.group or item.swept)]
    problems = []
    for item in fixed:
        refused = item.add == "+" if value_at(master, item.key) is not MISSING else not item.add
        if refused and item.key not in {problem.key for problem in sweep.problems}:
            write = f"++{item.text.lstrip('+')}"
            text = f": not known to the default {listed(groups)}; in this sweep write {write}"
            problems.append(Problem(item.text, text))
    return problems
