"""Launchers, which run the jobs of a sweep: problems of `hydra/launcher=...` and `hydra.launcher.*`, as sentences."""

from collections.abc import Mapping, Sequence
from typing import Any

from attnlab.config.conform import conform, unknown_keys
from attnlab.config.overrides import Item
from attnlab.config.schema import Count

GROUP = "hydra/launcher"
_SECTION = "hydra.launcher"
_IN_EXTRA = ("joblib", "submitit_local", "submitit_slurm")


def not_installed(item: Item) -> str | None:
    """The problem of a launcher that a package of its own brings, where that package is missing."""
    name = item.values[0] if item.key == GROUP and item.values else None
    if name not in _IN_EXTRA:
        return None
    package = f"hydra-{str(name).partition('_')[0]}-launcher"
    return f"{item.text}: {package} is not installed; pip install -e '.[sweep]' brings it"


def unknown_option(item: Item, words: Sequence[Item]) -> str | None:
    """The problem of an option that the chosen launcher does not have; None where it has it, or it is no such option.

    Args:
        words: all of the command line, the choice of the launcher among them.
    """
    key = item.key.removeprefix(f"{_SECTION}.")
    by_name = _options_by_name()
    name = next((word.values[0] for word in words if word.key == GROUP and word.values), "basic")
    if key == item.key or name not in by_name or key in by_name[name]:
        return None
    if owners := [other for other, options in by_name.items() if key in options]:
        return f"{item.text}: an option of {GROUP}={' or '.join(owners)}, and {name} was chosen"
    if not by_name[name]:
        return f"{item.text}: {GROUP}={name} has no options"
    return unknown_keys({key: item.values[0] if item.values else None}, by_name[name], _SECTION)[0]


def launcher_problems(launcher: Mapping[str, Any]) -> list[str]:
    """Problems of the values of a launcher's options, where a launcher itself would stop late or without a sentence."""
    problems = []
    if "max_packed" in launcher:
        problems += conform(launcher["max_packed"], Count | None, f"{_SECTION}.max_packed")
    if launcher.get("name") == "joblib" and launcher["n_jobs"] == 0:
        problems.append(f"{_SECTION}.n_jobs=0: expected the number of processes, or -1 for one on each core")
    return problems


def _options_by_name() -> dict[str, list[str]]:
    """The options of every launcher that is installed."""
    from hydra.core.config_store import ConfigStore

    store = ConfigStore.instance()
    files = store.list(GROUP)
    nodes = {file.removesuffix(".yaml"): store.load(f"{GROUP}/{file}").node for file in files}
    return {name: [str(key) for key in node if key != "_target_"] for name, node in nodes.items()}
