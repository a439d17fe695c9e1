"""`hydra/launcher=packed`: the jobs of a sweep that differ in seed or scalar values only are trained together.

Hydra imports every file of `hydra_plugins` whenever it composes a configuration: nothing heavy at the top.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn, JobStatus, configure_log, run_job, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict

if TYPE_CHECKING:
    from attnlab.launch.hydra_jobs import Jobs


@dataclass
class PackedLauncherConf:
    """Options of the launcher."""

    _target_: str = "hydra_plugins.attnlab_packed.launcher.PackedLauncher"
    max_packed: int | None = None
    """runs trained at once at most; null = as many as fit into memory, by a step of one of them"""


ConfigStore.instance().store(group="hydra/launcher", name="packed", node=PackedLauncherConf, provider="attnlab")


class PackedLauncher(Launcher):
    """Trains what fits together in one go, and the rest one after the other; works with attnlab's jobs only.

    Args:
        max_packed: runs trained at once at most.
    """

    def __init__(self, max_packed: int | None = None) -> None:
        self.max_packed = max_packed

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.hydra_context, self.config = hydra_context, config
        # What `attnlab.launch.train_cli` gives to hydra.main: Hydra calls it for one job, this launcher for many.
        self.jobs: Jobs = task_function

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        from attnlab.config.pack_grouping import packs

        setup_globals()
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        Path(str(self.config.hydra.sweep.dir)).mkdir(parents=True, exist_ok=True)
        checked = self.jobs.command.jobs[initial_job_idx : initial_job_idx + len(job_overrides)]
        returns: dict[int, JobReturn] = {}
        for pack in packs(checked):
            numbers = [initial_job_idx + member for member in pack.members]
            if pack.reason:
                [member], [number] = pack.members, numbers
                self.jobs.say(numbers, f"alone: {pack.reason}")
                returns[number] = self._run(number, job_overrides[member])
                continue
            codes = self.jobs.pack(numbers, self.max_packed)
            for member, number, code in zip(pack.members, numbers, codes, strict=True):
                words = list(job_overrides[member])
                returns[number] = JobReturn(overrides=words, status=JobStatus.COMPLETED, _return_value=code)
        return [returns[number] for number in sorted(returns)]

    def _run(self, number: int, overrides: Sequence[str]) -> JobReturn:
        """As Hydra's own launcher runs a job."""
        config = self.hydra_context.config_loader.load_sweep_config(self.config, list(overrides))
        with open_dict(config):
            config.hydra.job.id = config.hydra.job.num = number
        return run_job(
            hydra_context=self.hydra_context,
            task_function=self.jobs,
            config=config,
            job_dir_key="hydra.sweep.dir",
            job_subdir_key="hydra.sweep.subdir",
        )
