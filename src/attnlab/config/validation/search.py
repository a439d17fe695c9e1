"""Searches: sweeps in which `hydra/sweeper=optuna` chooses each job by the results of earlier ones.

What a search optimises is the main validation metric of the task: the test set selects nothing.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnlab.config.command_line.words import Item
from attnlab.config.message_text import hint, listed
from attnlab.config.nearest_word import nearest
from attnlab.config.problem import Problem
from attnlab.config.validation.launcher_options import DEFAULT
from attnlab.config.validation.launcher_options import GROUP as LAUNCHERS
from attnlab.config.validation.ranges import Count
from attnlab.config.validation.type_check import conform

GROUP = "hydra/sweeper"
OPTUNA = "optuna"
CHOSEN = f"{GROUP}={OPTUNA}"
"""the word of a command line that asks for a search"""
_SECTION = "hydra.sweeper"
_LOGARITHMIC = re.compile(r"tag\([^()]*\blog\b")
_NOT_OFFERED = ("ax", "nevergrad")


@dataclass(frozen=True)
class Search:
    """A search.

    keys:   whose values the sweeper chooses.
    trials: number of jobs.
    words:  overrides for Hydra that the command line leaves open.
    """

    keys: tuple[str, ...]
    trials: int
    words: tuple[str, ...]


def sweeper_problem(item: Item, installed: Sequence[str]) -> Problem | None:
    """The problem of a choice of the sweeper, else None."""
    name = str(item.values[0]) if item.values else ""
    if item.key != GROUP or (name in ("basic", OPTUNA) and name in installed):
        return None
    if name == OPTUNA:
        return Problem(item.text, ": hydra-optuna-sweeper is not installed; pip install -e '.[optuna]' brings it")
    if name in _NOT_OFFERED:
        return Problem(item.text, f": not offered; {GROUP}: basic (every combination), {OPTUNA} (a search)")
    near = hint(nearest(name, ("basic", OPTUNA)))
    return Problem(item.text, f": no such choice{near}; {GROUP}: basic, {OPTUNA}")


def read_search(
    sweeper: Mapping[str, Any], launcher: str, items: Sequence[Item], configs: Sequence[Mapping[str, Any]]
) -> tuple[Search | None, list[Problem]]:
    """The search of a sweep, None for a sweep over all combinations, and its problems.

    Args:
        sweeper: its name and its options.
        launcher: name of the launcher.
        items: overrides of the sweep.
        configs: complete configurations of the search space's corners.
    """
    intervals = [item for item in items if item.interval]
    if sweeper.get("name") != OPTUNA:
        if any(item.key == GROUP for item in items):
            # Another choice was meant, and its problem is reported.
            return None, []
        advice = f"an interval is searched with {CHOSEN}; for all combinations write a list"
        return None, [Problem(item.text, f": {advice} such as {item.key}={_ends(item)}") for item in intervals]
    swept = [item for item in items if item.swept]
    keys = {item.key for item in items}
    problems = _space_problems(swept) + _objective_problems(configs) + _option_problems(sweeper, launcher)
    if f"{_SECTION}.direction" in keys:
        problems.append(Problem(f"{_SECTION}.direction", ": the task's metric says what is better; leave it out"))
    words: dict[str, str | int] = {}
    if launcher == DEFAULT:
        # Hydra starts jobs one after the other with its own launcher.
        words[LAUNCHERS] = "basic"
    # One trial after the other, each with the results of all earlier ones.
    words[f"{_SECTION}.n_jobs"] = 1
    if "seed" in (sweeper.get("sampler") or {}) and sweeper["sampler"]["seed"] is None:
        # The same trials again when the command is repeated, so that it goes on where it stopped.
        words[f"{_SECTION}.sampler.seed"] = 0
    more_words = tuple(f"{key}={value}" for key, value in words.items() if key not in keys)
    return Search(tuple(item.key for item in swept), sweeper.get("n_trials", 0), more_words), problems


def _ends(item: Item) -> str:
    return ",".join(f"{value:g}" for value in item.values)


def _space_problems(swept: Sequence[Item]) -> list[Problem]:
    if not swept:
        example = "'optim.lr=tag(log,interval(1e-4,1e-2))'"
        return [Problem(CHOSEN, f": nothing to search; write a choice of values, or an interval such as {example}")]
    lists = [item for item in swept if any(isinstance(value, (list, dict)) for value in item.values)]
    problems = [Problem(item.text, f": {OPTUNA} chooses among numbers and words, not among lists") for item in lists]
    for item in (item for item in swept if item.interval):
        low, high = item.values
        if low > high:
            problems.append(Problem(item.text, f": {low:g} is larger than {high:g}; write the smaller end first"))
        elif low <= 0 and _LOGARITHMIC.search(item.text):
            problems.append(Problem(item.text, ": a logarithmic interval begins above 0"))
    for item in swept:
        if item.key.partition(".")[0] in ("task", "experiment"):
            text = ": validation metrics on different data are not comparable; search each alone"
            problems.append(Problem(item.text, text))
        elif item.key == "seed":
            text = ": the seed is no setting, and the best of several is chance; search with one"
            problems.append(Problem(item.text, text))
    return problems


def _objective_problems(configs: Sequence[Mapping[str, Any]]) -> list[Problem]:
    """Problems of tasks that no validation set can select by."""
    without = {config["task"]["name"] for config in configs if config["train"].get("validate_every") is None}
    advice = (
        "has no validation set, and the test set must select nothing; search on a task that has one "
        "(train.validate_every; scan, pcfg, mathematics and cfq can: task.validation_share), or sweep a grid without"
    )
    text = f": task={listed(sorted(without))} {advice} {CHOSEN}"
    return [Problem(CHOSEN, text)] if without else []


def _option_problems(sweeper: Mapping[str, Any], launcher: str) -> list[Problem]:
    problems: list[Problem] = [*conform(sweeper.get("n_trials", 1), Count, f"{_SECTION}.n_trials")]
    if launcher not in ("basic", DEFAULT):
        text = f": {CHOSEN} runs its jobs one after the other; leave it out"
        problems.append(Problem(f"{LAUNCHERS}={launcher}", text))
    if sweeper.get("search_space") or sweeper.get("custom_search_space"):
        text = f": write the search space as overrides, such as {_SECTION}.params"
        problems.append(Problem(f"{_SECTION}.search_space", text))
    return problems
