"""Options of `hydra/launcher=packed`, which trains jobs together that differ in seed or scalar values only.

`attnlab.launch.run_jobs` runs the jobs; this module makes the choice and its options known to Hydra, which imports
every file of `hydra_plugins` for each composition: no slow imports here.
"""

from dataclasses import dataclass

from hydra.core.config_store import ConfigStore


@dataclass
class PackedLauncherConf:
    """Options of the launcher."""

    max_packed: int | None = None
    """largest number of runs trained together; null = as many as fit into memory, measured with a step of one run"""


ConfigStore.instance().store(group="hydra/launcher", name="packed", node=PackedLauncherConf, provider="attnlab")
