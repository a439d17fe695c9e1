"""Options of `hydra/launcher=packed`: jobs of a sweep that differ in seed or scalar values only are trained together.

`attnlab.launch.jobs` runs the jobs; Hydra knows the choice and its options from here. It imports every file of
`hydra_plugins` whenever it composes a configuration: nothing heavy at the top.
"""

from dataclasses import dataclass

from hydra.core.config_store import ConfigStore


@dataclass
class PackedLauncherConf:
    """Options of the launcher."""

    max_packed: int | None = None
    """runs trained at once at most; null = as many as fit into memory, by a step of one of them"""


ConfigStore.instance().store(group="hydra/launcher", name="packed", node=PackedLauncherConf, provider="attnlab")
