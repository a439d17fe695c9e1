"""Launchers that run the jobs of a sweep, and their options; `attnlab.launch.run_jobs` runs the jobs.

`joblib` and `submitit_slurm` are Hydra's names. Hydra's plugins for them, which compose every job again in its process,
are not used, nor is joblib.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attnlab.config.slurm_options import SLURM, SlurmConf

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


NODES: Mapping[str, Any] = {DEFAULT: AutoLauncherConf, "joblib": JoblibLauncherConf, SLURM: SlurmConf}
"""options of every launcher by its name; `basic` is Hydra's own, without options"""
LAUNCHERS = ("basic", *NODES)


def register() -> None:
    """Make the launchers known to Hydra in this process, and `auto` its default.

    Installed plugins with these names are replaced. Called after Hydra has loaded its plugins.
    """
    from hydra.conf import HydraConf
    from hydra.core.config_store import ConfigStore

    store = ConfigStore.instance()
    for name, node in NODES.items():
        store.store(group=GROUP, name=name, node=node, provider="attnlab")
    # An `override` in conf/config.yaml would outrank the override of an experiment.
    defaults = [{"launcher": DEFAULT} if "launcher" in entry else entry for entry in HydraConf().defaults]
    store.store(group="hydra", name="config", node=HydraConf(defaults=defaults), provider="attnlab")


def chosen_launcher(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Name and options of a launcher; `auto` with a number of processes means `joblib`."""
    own = {key: value for key, value in options.items() if key != "_target_"}
    return {"name": "joblib" if name == DEFAULT and own.get("n_jobs") is not None else name, **own}
