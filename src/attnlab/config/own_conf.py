"""The user's own configuration: `conf/` in the current folder, whose files join the shipped choices.

It adds choices and replaces none: a file with the name of a shipped one and another content is refused. Its
`config.yaml` is not read.
"""

from collections.abc import Callable, Iterator
from functools import cache, wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from attnlab.config.shipped_files import CONF
from attnlab.config.user_error import UserError

P = ParamSpec("P")
T = TypeVar("T")


class OwnConfError(UserError):
    """A file of the user's `conf/` that has the name of a shipped one."""


def own_conf() -> Path | None:
    """The folder `conf` of the current folder; None if there is none, or if it is the shipped one.

    Raises:
        OwnConfError: a file in it has the name of a shipped one and another content.
    """
    try:
        folder = Path.cwd() / "conf"
    except FileNotFoundError:
        # the current folder was removed
        return None
    return folder.resolve() if _adds_choices(folder) else None


def conf_folders(conf: Path) -> list[Path]:
    """The folder itself and, for the shipped one, the user's own."""
    own = own_conf() if conf == CONF else None
    return [conf] if own is None else [conf, own]


def cached_per_folder(function: Callable[P, T]) -> Callable[P, T]:
    """`functools.cache` for a function whose result depends on the user's own configuration as well."""

    @cache
    def cached(own: Path | None, *args: P.args, **kwargs: P.kwargs) -> T:
        return function(*args, **kwargs)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        # hashable, as functools.cache wants them: no type says so
        return cached(own_conf(), *args, **kwargs)  # type: ignore[arg-type]

    return call


def join_search_path() -> None:
    """Register the user's own configuration with Hydra, for each search path that it makes in this process."""
    from hydra.core.config_search_path import ConfigSearchPath
    from hydra.core.plugins import Plugins
    from hydra.plugins.search_path_plugin import SearchPathPlugin

    class OwnConf(SearchPathPlugin):
        """Appends the folder, after the shipped one."""

        def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
            own = own_conf()
            if own is not None and any(
                str(part.path).removeprefix("file://") == str(CONF) for part in search_path.get_path()
            ):
                search_path.append("attnlab", f"file://{own}")

    plugins = Plugins.instance()
    if all(plugin.__name__ != OwnConf.__name__ for plugin in plugins.discover(SearchPathPlugin)):
        plugins.register(OwnConf)


@cache
def _adds_choices(folder: Path) -> bool:
    """Whether a folder holds a group of the configuration.

    Raises:
        OwnConfError: as `own_conf`.
    """
    groups = [path.name for path in CONF.iterdir() if path.is_dir()]
    if not any((folder / group).is_dir() for group in groups) or folder.resolve() == CONF:
        return False
    for file in _files(folder, groups):
        shipped = CONF / file.relative_to(folder)
        if shipped.exists() and shipped.read_bytes() != file.read_bytes():
            raise OwnConfError(
                f"{file}: the attnlab in use has a file of this name; give yours another name (`name:` in it too), or, "
                "if this folder is another copy of attnlab, use its own environment (make setup)"
            )
    return True


def _files(folder: Path, groups: list[str]) -> Iterator[Path]:
    for group in groups:
        yield from sorted((folder / group).rglob("*.yaml"))
