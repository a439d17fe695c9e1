"""Launchers that run the jobs of a sweep on this machine, and their options; `attnlab.launch.run_jobs` runs the jobs.

`joblib` is Hydra's name for several processes on one machine. Neither joblib nor Hydra's plugin for it is used.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

GROUP = "hydra/launcher"
DEFAULT = "auto"
"""the launcher of a sweep that names none"""


@dataclass
class AutoLauncherConf:
    """Options of `hydra/launcher=auto`: joblib on a machine without a GPU, else basic."""

    n_jobs: int | None = None
    """a number chooses joblib, on every machine"""


@dataclass
class JoblibLauncherConf:
    """Options of `hydra/launcher=joblib`: jobs in several processes of this machine."""

    n_jobs: int = -1
    """number of processes; -1 = one for each core, -2 = one less, and so on"""


@dataclass
class PackedLauncherConf:
    """Options of `hydra/launcher=packed`: jobs that differ in seed or scalar values only are trained together."""

    max_packed: int | None = None
    """largest number of runs trained together; null = as many as fit into memory, measured with a step of one run"""


def register() -> None:
    """Make the launchers known to Hydra in this process, and `auto` its default.

    An installed plugin `joblib` is replaced. Called after Hydra has loaded its plugins.
    """
    from hydra.conf import HydraConf
    from hydra.core.config_store import ConfigStore

    store = ConfigStore.instance()
    for name, node in (("auto", AutoLauncherConf), ("joblib", JoblibLauncherConf), ("packed", PackedLauncherConf)):
        store.store(group=GROUP, name=name, node=node, provider="attnlab")
    # An `override` in conf/config.yaml would outrank the override of an experiment.
    defaults = [{"launcher": DEFAULT} if "launcher" in entry else entry for entry in HydraConf().defaults]
    store.store(group="hydra", name="config", node=HydraConf(defaults=defaults), provider="attnlab")


def chosen_launcher(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Name and options of a launcher; `auto` with a number of processes means `joblib`."""
    own = {key: value for key, value in options.items() if key != "_target_"}
    return {"name": "joblib" if name == DEFAULT and own.get("n_jobs") is not None else name, **own}
