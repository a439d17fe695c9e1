"""Hydra's compose API for the shipped `conf/` and the user's own, also inside a running Hydra job."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf, open_dict

from attnlab.config.conf_files import join_search_path, plain, unresolved
from attnlab.config.shipped_files import CONF
from attnlab.config.validation.launcher_options import chosen_launcher, register

NO_SETTINGS: dict[str, Any] = {"mode": None, "params": {}, "launcher": {"name": "basic"}, "sweeper": {}, "choices": {}}
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


def hydra_settings(overrides: Sequence[str], conf: Path = CONF) -> dict[str, Any]:
    """All settings of Hydra for a command line, interpolations unresolved."""
    from hydra import compose

    with hydra_session(conf):
        node = compose("config", overrides=list(overrides), return_hydra_config=True).hydra
    return cast("dict[str, Any]", OmegaConf.to_container(node, enum_to_str=True))
