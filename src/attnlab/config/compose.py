"""Hydra's compose API for the shipped `conf/` and the user's own, also inside a running Hydra job."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf, open_dict

from attnlab.config.conf_files import cached_per_folder, join_search_path, plain, unresolved
from attnlab.config.shipped_files import CONF
from attnlab.config.validation.launcher_options import chosen_launcher, register

NO_SETTINGS: dict[str, Any] = {
    "mode": None,
    "params": {},
    "launcher": chosen_launcher("basic", {}),
    "sweeper": {},
    "choices": {},
}
"""Hydra's settings of a command line that does not compose"""


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


def compose_unresolved(words: Sequence[str], conf: Path = CONF) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The composition of overrides; that of the shipped files is kept, nobody changes it.

    Returns:
        the configuration as plain dicts and lists, with interpolations as text, and Hydra's settings: `mode` (None,
        "RUN" or "MULTIRUN"), sweeper `params` (key: text, as on a command line), `launcher` and `sweeper` (`name` and
        options), and `choices`, the file that each group took.

    Raises:
        hydra.errors.HydraException: overrides that do not compose; `sweep.check_command` has better messages.
    """
    return _of_shipped_files(*words) if conf == CONF else _composed(words, conf)


@cached_per_folder
def _of_shipped_files(*words: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    return _composed(words, CONF)


def _node(words: Sequence[str], conf: Path) -> DictConfig:
    """What Hydra composes, its own settings included."""
    import hydra

    with hydra_session(conf):
        return hydra.compose("config", overrides=list(words), return_hydra_config=True)


def _composed(words: Sequence[str], conf: Path) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    node = _node(words, conf)
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
    return unresolved(node), settings


def _remove_missing(node: DictConfig) -> None:
    """Removes keys that a `_base.yaml` leaves open (`???`) and no file sets: the check reports missing keys."""
    for key in list(node):
        if OmegaConf.is_missing(node, key):
            del node[key]
        elif not OmegaConf.is_interpolation(node, key) and OmegaConf.is_dict(node[key]):
            _remove_missing(node[key])


def compose_with_hydra(words: Sequence[str], conf: Path = CONF) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """The same with the configuration resolved, for changes too."""
    config, settings = compose_unresolved(words, conf)
    return plain(OmegaConf.create(dict(config))), settings


def hydra_settings(overrides: Sequence[str], conf: Path = CONF) -> dict[str, Any]:
    """All settings of Hydra for a command line, interpolations unresolved."""
    return cast("dict[str, Any]", OmegaConf.to_container(_node(overrides, conf).hydra, enum_to_str=True))
