"""Hydra's compose API for the shipped `conf/` and the user's own, also inside a running Hydra job."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf, open_dict

from attnlab.config.launcher_options import chosen_launcher, register
from attnlab.config.shipped_files import CONF
from attnlab.config.user_conf import cached_per_folder, conf_folders, join_search_path


@cached_per_folder
def group_choices(conf: Path = CONF) -> Mapping[str, list[str]]:
    """Every configuration group and its choices; choices in subfolders as `folder/name`.

    Files that begin with an underscore are no choices, but parts of other files' defaults lists.
    """
    groups = {}
    for group in sorted(path.name for path in conf.iterdir() if path.is_dir()):
        folders = [folder / group for folder in conf_folders(conf)]
        files = [file.relative_to(folder) for folder in folders for file in folder.rglob("*.yaml")]
        names = {file.with_suffix("").as_posix() for file in files if not file.name.startswith("_")}
        groups[group] = sorted(names, key=lambda name: name.split("/"))
    return groups


def choice_named(group: str, name: str, conf: Path = CONF) -> str:
    """The choice with this file name in any subfolder (`qin2022/norm_attention`); the name itself if there is none."""
    return next((choice for choice in group_choices(conf)[group] if choice.rpartition("/")[2] == name), name)


@contextmanager
def hydra_session(conf: Path = CONF) -> Iterator[Any]:
    """Initialises Hydra on a folder; the state of a running job is restored afterwards.

    Yields:
        Hydra's config loader.
    """
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    running, GlobalHydra.instance().hydra = GlobalHydra.instance().hydra, None
    join_search_path()
    register()
    try:
        with initialize_config_dir(str(conf.resolve()), version_base="1.3"):
            yield GlobalHydra.instance().config_loader()
    finally:
        GlobalHydra.instance().hydra = running


def compose_node(overrides: Sequence[str]) -> tuple[DictConfig, dict[str, Any]]:
    """The composition of overrides, inside a `hydra_session`: interpolations are unresolved.

    Returns:
        the node, and Hydra's settings: `mode` (None, "RUN" or "MULTIRUN"), sweeper `params` (key: text, as on a command
        line), `launcher` and `sweeper` (`name` and options), and `choices`, the file that each group took.
    """
    from hydra import compose

    node = compose("config", overrides=list(overrides), return_hydra_config=True)
    mode, params = node.hydra.mode, OmegaConf.select(node, "hydra.sweeper.params")
    choices = node.hydra.runtime.choices
    settings = {
        "mode": None if mode is None else mode.name,
        "params": {} if params is None else OmegaConf.to_container(params, resolve=True),
        "launcher": chosen_launcher(choices["hydra/launcher"], unresolved(node.hydra.launcher)),
        "sweeper": {"name": choices["hydra/sweeper"], **unresolved(node.hydra.sweeper)},
        "choices": dict(choices),
    }
    with open_dict(node):
        del node["hydra"]
        if choices.get("experiment") is not None:
            node.setdefault("experiment", choices["experiment"])
        _remove_missing(node)
    return node, settings


def _remove_missing(node: DictConfig) -> None:
    """Removes keys that a `_base.yaml` leaves open (`???`) and no file sets: the check reports missing keys."""
    for key in list(node):
        if OmegaConf.is_missing(node, key):
            del node[key]
        elif not OmegaConf.is_interpolation(node, key) and OmegaConf.is_dict(node[key]):
            _remove_missing(node[key])


def compose_with_hydra(overrides: Sequence[str], conf: Path = CONF) -> tuple[dict[str, Any], dict[str, Any]]:
    """The configuration of a command line, resolved, and Hydra's settings: `mode` and sweeper `params`."""
    with hydra_session(conf):
        node, settings = compose_node(overrides)
    return plain(node), settings


def plain(node: DictConfig) -> dict[str, Any]:
    """A node with every interpolation resolved, as plain dicts and lists."""
    return cast("dict[str, Any]", OmegaConf.to_container(node, resolve=True))


def unresolved(node: DictConfig) -> dict[str, Any]:
    """A node as plain dicts and lists, with interpolations as text."""
    return cast("dict[str, Any]", OmegaConf.to_container(node, resolve=False))


@cached_per_folder
def merged_yaml(group: str, name: str, conf: Path = CONF) -> DictConfig:
    """A choice's yaml file merged with the files of its defaults list, much faster than a composition by Hydra.

    A missing file of the list is left out here; the composition reports it.
    """
    own = cast("DictConfig", OmegaConf.load(_choice_file(group, name, conf)))
    entries, found = list(own.pop("defaults", [])), []
    for entry in entries if "_self_" in entries else ["_self_", *entries]:
        parent = str(entry).partition("@")[0].removeprefix(f"/{group}/")
        if entry == "_self_":
            found.append(own)
        elif _choice_file(group, parent, conf).is_file():
            found.append(merged_yaml(group, parent, conf))
    return cast("DictConfig", OmegaConf.merge(*found))


def _choice_file(group: str, name: str, conf: Path) -> Path:
    """The yaml file of a choice; the one that the shipped folder would have if there is none."""
    files = [folder / group / f"{name}.yaml" for folder in conf_folders(conf)]
    return next((file for file in files if file.is_file()), files[0])
