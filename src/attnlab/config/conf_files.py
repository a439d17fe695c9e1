"""Files of the configuration: the shipped `conf/`, and `conf/` in the current folder, whose files join its choices.

The user's files add choices and replace none; a `config.yaml` there is not read.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import yaml
from omegaconf import DictConfig, OmegaConf

from attnlab.config.plain_yaml import yaml_problem
from attnlab.config.problem import UserError
from attnlab.config.shipped_files import CONF

P = ParamSpec("P")
T = TypeVar("T")
NAMED = ("task", "model")
"""groups whose choices have names in papers and libraries"""


class UserConfError(UserError):
    """A file of the user's `conf/` that is broken, or has the name of a shipped one and another content."""


def user_conf() -> Path | None:
    """The folder `conf` of the current folder; None if it has no choices, or is the shipped one.

    Raises:
        UserConfError: a file in it has the name of a shipped one and another content.
    """
    try:
        folder = (Path.cwd() / "conf").resolve()
    except FileNotFoundError:
        # the current folder was removed
        return None
    return folder if _adds_choices(folder) else None


@cache
def _adds_choices(folder: Path) -> bool:
    # hydra: launchers of a user's own
    names = [*(path.name for path in CONF.iterdir() if path.is_dir()), "hydra"]
    groups = [folder / name for name in names if (folder / name).is_dir()]
    for file in sorted(file for group in groups for file in group.rglob("*.yaml")) if folder != CONF else ():
        shipped = CONF / file.relative_to(folder)
        if shipped.exists() and shipped.read_bytes() != file.read_bytes():
            raise UserConfError(
                f"{file}: the attnlab in use has a file of this name; give yours another name (`name:` in it too), or, "
                "if this folder is another copy of attnlab, use its own environment (make setup)"
            )
    return bool(groups) and folder != CONF


def conf_folders(conf: Path) -> list[Path]:
    """The folder itself and, for the shipped one, the user's."""
    folder = user_conf() if conf == CONF else None
    return [conf] if folder is None else [conf, folder]


def cached_per_folder(function: Callable[P, T]) -> Callable[P, T]:
    """`functools.cache` for a function whose result depends on the user's configuration as well."""

    @cache
    def cached(folder: Path | None, *args: P.args, **kwargs: P.kwargs) -> T:
        return function(*args, **kwargs)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        # hashable, as functools.cache wants them: no type says so
        return cached(user_conf(), *args, **kwargs)  # type: ignore[arg-type]

    return call


def join_search_path() -> None:
    """Make Hydra search the user's configuration after the shipped one, whenever it starts in this process."""
    from hydra.core.config_search_path import ConfigSearchPath
    from hydra.core.plugins import Plugins
    from hydra.plugins.search_path_plugin import SearchPathPlugin

    class UserConf(SearchPathPlugin):
        """Appends the folder."""

        def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
            folder, shipped = user_conf(), (str(CONF), f"file://{CONF}")
            if folder is not None and any(part.path in shipped for part in search_path.get_path()):
                search_path.append("attnlab", f"file://{folder}")

    if all(plugin.__name__ != UserConf.__name__ for plugin in Plugins.instance().discover(SearchPathPlugin)):
        Plugins.instance().register(UserConf)


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


@cached_per_folder
def aliases(group: str, conf: Path = CONF) -> Mapping[str, str]:
    """What papers and libraries call the choices of a group, in lower case, with the choice that each name means.

    They stand in a choice's file in a line `# aliases: gla, ...`, a comment, so that they are no part of a run.
    """
    named: dict[str, str] = {}
    for choice in group_choices(conf).get(group, []):
        text = _choice_file(group, choice, conf).read_text(encoding="utf-8", errors="replace")
        if line := re.search(r"^ *# aliases: (.+)$", text, flags=re.MULTILINE):
            named |= {name.strip(): choice for name in line[1].lower().split(",")}
    return named


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

    Raises:
        UserConfError: the file is no yaml, or no section.
    """
    file = _choice_file(group, name, conf)
    try:
        choice = cast("DictConfig", OmegaConf.load(file))
    except yaml.YAMLError as error:
        raise UserConfError(f"{file}: {yaml_problem(error)}") from None
    if not OmegaConf.is_dict(choice):
        raise UserConfError(f"{file}: expected key: value pairs")
    entries, parts = list(choice.pop("defaults", [])), []
    for entry in entries if "_self_" in entries else ["_self_", *entries]:
        parent = str(entry).partition("@")[0].removeprefix(f"/{group}/")
        if entry == "_self_":
            parts.append(choice)
        elif _choice_file(group, parent, conf).is_file():
            parts.append(merged_yaml(group, parent, conf))
    return cast("DictConfig", OmegaConf.merge(*parts))


def _choice_file(group: str, name: str, conf: Path) -> Path:
    """The yaml file of a choice; the one that the shipped folder would have if there is none."""
    files = [folder / group / f"{name}.yaml" for folder in conf_folders(conf)]
    return next((file for file in files if file.is_file()), files[0])


@cached_per_folder
def task_yaml(name: str, conf: Path) -> Mapping[str, Any]:
    """The `task` section of a task's yaml, its defaults list included; nobody changes it."""
    section = unresolved(merged_yaml("task", name, conf)).get("task")
    return section if isinstance(section, Mapping) else {}
