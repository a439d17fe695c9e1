"""The user's configuration: `conf/` in the current folder, whose files join the shipped choices.

It adds choices and replaces none. Its `config.yaml` is not read.
"""

from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from attnlab.config.shipped_files import CONF
from attnlab.config.user_error import UserError

P = ParamSpec("P")
T = TypeVar("T")


class UserConfError(UserError):
    """A file of the user's `conf/` that has the name of a shipped one and another content."""


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
    groups = [folder / path.name for path in CONF.iterdir() if path.is_dir() and (folder / path.name).is_dir()]
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
