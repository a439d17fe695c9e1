"""Checks of Hydra's own overrides, above all of the launcher: `hydra/launcher=...` and `hydra.launcher.*`."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from hydra.core.object_type import ObjectType
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from attnlab.config.command_line.words import Item, Words
from attnlab.config.compose import compose_node
from attnlab.config.launcher_options import DEFAULT, GROUP, LAUNCHERS
from attnlab.config.message_text import choice, first_line
from attnlab.config.nearest_word import nearest
from attnlab.config.search import GROUP as SWEEPERS
from attnlab.config.search import sweeper_problem
from attnlab.config.slurm_options import SLURM, slurm_problems
from attnlab.config.type_check import unknown_keys

_SECTION = "hydra.launcher"
_FREE = f"{_SECTION}.additional_parameters"
"""the option that holds any keys"""


def _not_installed(name: str) -> str | None:
    """The problem of a launcher whose package is not installed, else None."""
    if name != SLURM or find_spec("submitit") is not None:
        return None
    return f"{GROUP}={name}: submitit is not installed; pip install -e '.[sweep]' brings it"


def unknown_option(item: Item, words: Sequence[Item]) -> str | None:
    """The problem of an option that the chosen launcher or sweeper does not have, else None.

    Args:
        words: the overrides of the command line, the choice of the launcher and the sweeper included.
    """
    group, _, key = item.key.replace(".", "/", 1).partition(".")
    by_name = _options_by_name(group) if group in (GROUP, SWEEPERS) else {}
    chosen = next((word.values[0] for word in words if word.key == group and word.values), None)
    name = chosen or (DEFAULT if group == GROUP else "basic")
    if not key or name not in by_name or key.partition(".")[0] in by_name[name]:
        return None
    value = {key: item.values[0] if item.values else None}
    if nearest(key, by_name[name]):
        return unknown_keys(value, by_name[name], group.replace("/", "."))[0]
    if owners := [other for other, options in by_name.items() if key in options]:
        found = f"and {chosen} was chosen" if chosen else "which was not chosen"
        return f"{item.text}: an option of {group}={' or '.join(owners)}, {found}"
    if not by_name[name]:
        return f"{item.text}: {group}={name} has no options"
    return unknown_keys(value, by_name[name], group.replace("/", "."))[0]


def launcher_problems(launcher: Mapping[str, Any]) -> list[str]:
    """Problems of option values that the launcher itself would report late or not at all."""
    problems = []
    if launcher.get("n_jobs") == 0:
        problems.append(f"{_SECTION}.n_jobs=0: expected the number of processes, or -1 for one on each core")
    if problem := _not_installed(launcher["name"]):
        return [*problems, problem]
    return problems + slurm_problems(launcher, _SECTION)


def _options_by_name(group: str) -> dict[str, list[str]]:
    """The options of every installed launcher or sweeper."""
    from hydra.core.config_store import ConfigStore

    store = ConfigStore.instance()
    files = [file for file in store.list(group) if file.endswith(".yaml")]
    nodes = {file.removesuffix(".yaml"): store.load(f"{group}/{file}").node for file in files}
    return {name: [str(key) for key in node if key != "_target_"] for name, node in nodes.items()}


def hydra_words(words: Words, loader: Any) -> tuple[list[str], list[str]]:
    """The valid overrides of Hydra itself, and the problems of the others.

    Group choices are checked here, other overrides by composing with them.

    Args:
        loader: Hydra's config loader, of a `hydra_session`.
    """
    good, bad_groups, problems = [], [], []
    for item in (item for item in words.items if item.is_hydra):
        problem = _choice_problem(item, loader) if "/" in item.key else _value_problem(item)
        if problem:
            problems.append(problem)
            bad_groups.append(item.key.replace("/", ".") + ".")
        elif not item.key.startswith(tuple(bad_groups)):
            good.append(item)
    texts = [item.text for item in good]
    if not good or _error(texts) is None:
        return texts, problems
    choices = [item.text for item in good if "/" in item.key]
    errors = [_error(list(dict.fromkeys([*choices, text]))) for text in texts]
    wrong = [(item, error) for item, error in zip(good, errors, strict=True) if error]
    problems += [unknown_option(item, good) or f"{item.text}: {error}" for item, error in wrong]
    return [text for text, error in zip(texts, errors, strict=True) if not error], problems


def _value_problem(item: Item) -> str | None:
    """The problem of a value that only needs to be written otherwise, else None."""
    if item.swept and item.key.startswith(f"{_SECTION}."):
        text = item.text.partition("=")[2]
        return f"{item.text}: one value only; a value with commas is written '{item.key}=\"{text}\"'"
    if item.key.startswith(_FREE) and not item.add:
        return f"{item.text}: these keys are added with a plus: +{item.text}"
    return None


def _choice_problem(item: Item, loader: Any) -> str | None:
    choices = loader.get_group_options(item.key, ObjectType.CONFIG)
    if item.key == SWEEPERS:
        return sweeper_problem(item, choices)
    if item.key == GROUP:
        # plugins of Hydra may have registered others
        choices = [name for name in LAUNCHERS if name in choices]
    if item.values and item.values[0] in choices:
        return None
    if item.key == GROUP and "submitit_local" in item.values:
        return f"{item.text}: not offered; joblib runs the jobs in processes of this machine"
    if choices:
        word = str(item.values[0]) if item.values else ""
        return f"{item.text}: no such choice{choice(word, choices, item.key)}"
    groups = [f"hydra/{name}" for name in loader.get_group_options("hydra", ObjectType.GROUP)]
    return f"{item.text}: unknown key{choice(item.key, groups, 'groups')}"


def _error(texts: Sequence[str]) -> str | None:
    try:
        compose_node(texts)
    except (HydraException, OmegaConfBaseException) as error:
        return first_line(error)
    return None
