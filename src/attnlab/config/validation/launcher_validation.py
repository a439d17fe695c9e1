"""Checks of Hydra's own overrides, above all of the launcher: `hydra/launcher=...` and `hydra.launcher.*`."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.object_type import ObjectType
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from attnlab.config.command_line.words import Item
from attnlab.config.compose import compose_unresolved, hydra_session
from attnlab.config.message_text import first_line
from attnlab.config.nearest_word import choice, nearest
from attnlab.config.problem import Problem
from attnlab.config.targets import TargetError, read_signature
from attnlab.config.user_path import expanded, path_problem
from attnlab.config.validation.launcher_options import (
    DEFAULT,
    EARLY_SECONDS,
    GROUP,
    LAUNCHERS,
    NODES,
    RAY,
    SLURM,
    option_values,
)
from attnlab.config.validation.search import GROUP as SWEEPERS
from attnlab.config.validation.search import sweeper_problem
from attnlab.config.validation.type_check import conform, hints, unknown_keys

_SECTION = "hydra.launcher"
_OFFERED = (f"{_SECTION}.", "hydra.sweeper.", "hydra.mode")
"""options of Hydra that have an effect: jobs run without it"""
_FREE = (f"{_SECTION}.additional_parameters", f"{_SECTION}.runtime_env")
"""options that hold any keys"""
_PACKAGES = {SLURM: ("submitit", "sweep"), RAY: ("ray", "ray")}
"""package of a launcher, and the extra that installs it"""


def _unknown_option(item: Item, words: Sequence[Item], conf: Path) -> Problem | None:
    """The problem of an option that the chosen launcher or sweeper does not have, else None.

    Args:
        words: valid overrides of the command line, the choice of the launcher and the sweeper included.
    """
    group, _, key = item.key.replace(".", "/", 1).partition(".")
    by_name = _options_by_name(group) if group in (GROUP, SWEEPERS) else {}
    chosen = next((word.values[0] for word in words if word.key == group and word.values), None)
    name = chosen or (DEFAULT if group == GROUP else "basic")
    if group == GROUP and name not in by_name:
        # a user's own is a file
        by_name[name] = list(option_values(compose_unresolved([f"{GROUP}={name}"], conf)[1]["launcher"]))
    if not key or name not in by_name or key.partition(".")[0] in by_name[name]:
        return None
    value = {key: item.values[0] if item.values else None}
    if nearest(key, by_name[name]):
        return unknown_keys(value, by_name[name], group.replace("/", "."))[0]
    if owners := [other for other, options in by_name.items() if key in options]:
        choice_in_words = f"and {chosen} was chosen" if chosen else "which was not chosen"
        return Problem(item.text, f": an option of {group}={' or '.join(owners)}, {choice_in_words}")
    if not by_name[name]:
        return Problem(item.text, f": {group}={name} has no options")
    return unknown_keys(value, by_name[name], group.replace("/", "."))[0]


def launcher_problems(launcher: Mapping[str, Any]) -> list[Problem]:
    """Problems of option values that the launcher itself would report late or not at all."""
    name = launcher["_name_"]
    package, extra = _PACKAGES.get(name, ("hydra", ""))
    if find_spec(package) is None:
        return [Problem(f"{GROUP}={name}", f": {package} is not installed; pip install -e '.[{extra}]' brings it")]
    if missing := [key for key, value in {"_target_": "???", **launcher}.items() if value == "???"]:
        return [Problem(f"{GROUP}={name}", f": {_SECTION}.{key} has no value") for key in missing]
    kinds, problems = hints(NODES[name]) if name in NODES else {}, list[Problem]()
    if name not in NODES:
        # another class than a launcher is refused when it is made
        with suppress(TargetError):
            arguments = read_signature(launcher["_target_"]).arguments
            kinds = {key: argument.annotation for key, argument in arguments.items()}
    for key in (key for key in kinds if key in launcher):
        problems += conform(launcher[key], kinds[key], f"{_SECTION}.{key}")
    return problems or _value_problems(launcher)


def _options_by_name(group: str) -> dict[str, list[str]]:
    """The options of every installed launcher or sweeper."""
    store = ConfigStore.instance()
    files = [file for file in store.list(group) if file.endswith(".yaml")]
    nodes = {file.removesuffix(".yaml"): store.load(f"{group}/{file}").node for file in files}
    return {name: [str(key) for key in node if key != "_target_"] for name, node in nodes.items()}


def hydra_words(items: Sequence[Item], conf: Path) -> tuple[list[str], list[Problem]]:
    """The valid overrides of Hydra itself, and the problems of the others.

    Group choices are checked here, other overrides by composing with them.
    """
    good, bad_groups, problems = [], [], []
    for item in items:
        problem = _choice_problem(item, conf) if "/" in item.key else _value_problem(item)
        if problem:
            problems.append(problem)
            bad_groups.append(item.key.replace("/", ".") + ".")
        elif not item.key.startswith(tuple(bad_groups)):
            good.append(item)
    texts = [item.text for item in good]
    if not good or _error(texts, conf) is None:
        return texts, problems
    choices = [item.text for item in good if "/" in item.key]
    errors = {item.text: _error(list(dict.fromkeys([*choices, item.text])), conf) for item in good}
    problems += [
        _unknown_option(item, good, conf) or Problem(item.text, f": {errors[item.text]}")
        for item in good
        if errors[item.text]
    ]
    return [text for text, error in errors.items() if not error], problems


def _value_problem(item: Item) -> Problem | None:
    """The problem of an option that is not offered, or of a value that needs to be written otherwise, else None."""
    if not item.key.startswith(_OFFERED):
        return Problem(item.text, ": not offered: a run has a folder named by its configuration, below paths.runs")
    if item.swept and item.key.startswith(f"{_SECTION}."):
        text = item.text.partition("=")[2]
        return Problem(item.text, f": one value only; a value with commas is written '{item.key}=\"{text}\"'")
    if item.key.startswith(_FREE) and not item.add:
        return Problem(item.text, f": these keys are added with a plus: +{item.text}")
    return None


def _choice_problem(item: Item, conf: Path) -> Problem | None:
    with hydra_session(conf) as loader:
        choices = loader.get_group_options(item.key, ObjectType.CONFIG)
        groups = [f"hydra/{name}" for name in loader.get_group_options("hydra", ObjectType.GROUP)]
    if item.key == SWEEPERS:
        return sweeper_problem(item, choices)
    if item.key == GROUP:
        # Others of the store are plugins of Hydra; a user's own is a file.
        store = ConfigStore.instance().list(GROUP)
        choices = [*LAUNCHERS, *(name for name in choices if f"{name}.yaml" not in store)]
    if item.values and item.values[0] in choices:
        return None
    if item.key == GROUP and "submitit_local" in item.values:
        return Problem(item.text, ": not offered; joblib runs the jobs in processes of this machine")
    if choices:
        word = str(item.values[0]) if item.values else ""
        return Problem(item.text, f": no such choice{choice(word, choices, item.key)}")
    return Problem(item.text, f": unknown key{choice(item.key, groups, 'groups')}")


def _error(texts: Sequence[str], conf: Path) -> str | None:
    try:
        compose_unresolved(texts, conf)
    except (HydraException, OmegaConfBaseException) as error:
        return first_line(error)
    return None


_SET = ("array", "output", "error", "open_mode", "signal", "nodes", "ntasks", "ntasks_per_node", "chdir")
"""options of sbatch that are not the user's"""


def _value_problems(launcher: Mapping[str, Any]) -> list[Problem]:
    """Problems of option values of the right types, which the engine would report late or not at all."""
    problems: list[Problem] = []
    if launcher.get("n_jobs") == 0:
        text = "=0: expected the number of processes, or -1 for one on each core"
        problems.append(Problem(f"{_SECTION}.n_jobs", text))
    if (gpus := launcher.get("num_gpus")) is not None and gpus > 1 and gpus != int(gpus):
        text = f"={gpus}: expected a whole number, or a part of one GPU, such as 0.25"
        problems.append(Problem(f"{_SECTION}.num_gpus", text))
    folder = launcher.get("submitit_folder")
    if folder is not None and (wrong := path_problem(f"{_SECTION}.submitit_folder", expanded(folder))):
        problems.append(wrong)
    limit, delay = launcher.get("timeout_min"), launcher.get("signal_delay_s")
    if limit is not None and delay is not None and (problem := delay_problem(limit, delay)):
        problems.append(Problem(f"{_SECTION}.signal_delay_s", f"={delay}: {problem}"))
    for first, second in (("gpus_per_node", "gres"), ("mem_gb", "mem_per_cpu"), ("mem_gb", "mem_per_gpu")):
        if launcher.get(first) is not None and launcher.get(second) is not None:
            text = f"={launcher[first]}: {_SECTION}.{second} is given too; write one of them"
            problems.append(Problem(f"{_SECTION}.{first}", text))
    for key in launcher.get("additional_parameters", {}):
        option = str(key).replace("-", "_")
        option = {"time": "timeout_min", "mem": "mem_gb"}.get(option, option)
        if option in launcher or option in _SET:
            instead = f"write {_SECTION}.{option}=..." if option in launcher else "attnlab sets it"
            problems.append(Problem(f"{_SECTION}.additional_parameters.{key}", f": {instead}"))
    return problems


def delay_problem(limit: int, delay: int) -> str:
    """Why jobs of `limit` minutes cannot get their signal `delay` seconds before the end; empty if they can."""
    if delay + EARLY_SECONDS < limit * 60:
        return ""
    return (
        f"jobs of {limit} min may be stopped when they start, as Slurm may send the signal {EARLY_SECONDS} seconds "
        "early; expected a longer timeout_min (and partition), or a shorter delay"
    )
