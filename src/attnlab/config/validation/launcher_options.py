"""Launchers that run the jobs of a sweep, their options and their classes (`attnlab.launch.launcher`).

`joblib` and `submitit_slurm` are Hydra's names. Hydra's plugins for them, which compose every job again in its process,
are not used, nor is joblib. The options of Slurm have the names and meanings of Hydra's plugin for submitit and of
`man sbatch`; nothing here imports submitit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from attnlab.config.validation.ranges import Count, Natural, NonNegative

SLURM, RAY = "submitit_slurm", "ray"
"""names of launchers"""
EARLY_SECONDS = 60
"""by which Slurm may send the signal of a time limit early (man sbatch, --signal)"""
LONGEST_MINUTES = 24 * 60
"""time limit of a Slurm job where neither the options nor the partition name a shorter one"""


@dataclass
class SlurmConf:
    """Options of `hydra/launcher=submitit_slurm`."""

    timeout_min: Count | None = None
    """time limit of a job in minutes; null = as long as the partition allows, at most 24 hours. A job that needs longer
    saves its runs, goes back into the queue and goes on later"""
    max_num_timeout: Natural = 100
    """how often a job may go back into the queue because its time was over"""
    signal_delay_s: Natural = 120
    """seconds before the time limit at which a job saves its runs and stops: more than a step and a checkpoint take"""
    submitit_folder: str | None = None
    """folder of logs and submitted jobs, seen by all nodes; null = a folder for each sweep in <paths.runs>/.sweeps"""
    partition: str | None = None
    """null = the default partition of the cluster"""
    account: str | None = None
    qos: str | None = None
    gpus_per_node: Natural | None = None
    """null = a GPU for each process of a run where the partition has GPUs, unless trainer.device=cpu"""
    gres: str | None = None
    """generic resources, such as gpu:a100:1, instead of gpus_per_node"""
    cpus_per_task: Count | None = None
    """cores of a process, and threads of its runs unless trainer.threads says otherwise; null = trainer.threads, else 1
    on a CPU and 4 beside a GPU, and one for each of trainer.workers"""
    mem_gb: Count | None = None
    """memory of a node's processes, in GB; null = 8 for each process where the cluster divides memory among jobs"""
    mem_per_cpu: str | None = None
    mem_per_gpu: str | None = None
    constraint: str | None = None
    exclude: str | None = None
    nodelist: str | None = None
    dependency: str | None = None
    comment: str | None = None
    mail_user: str | None = None
    mail_type: str | None = None
    """when Slurm writes to mail_user, such as END, or FAIL"""
    setup: list[str] | None = None
    """lines of shell before the command, such as [module load cuda]"""
    array_parallelism: Count = 256
    """tasks of an array that run at the same time, at most"""
    additional_parameters: dict[str, Any] = field(default_factory=dict)
    """any other option of sbatch, such as {reservation: course}"""
    job_name: str | None = None
    """null = attnlab-<task>-<model>"""
    runs_per_task: Count = 1
    """runs that a task of an array trains at once, in processes with a GPU each, where a cluster allocates whole nodes.
    They share what gpus_per_node, cpus_per_task and mem_gb ask for, and what null stands for is multiplied by it"""
    _target_: str = "attnlab.launch.cluster.run_on_cluster.SlurmLauncher"

    @property
    def gpus(self) -> int | None:
        """GPUs on each node that the options ask for; None if they leave that open."""
        if self.gpus_per_node is not None or self.gres is None:
            return self.gpus_per_node
        # such as gpu, gpu:2 and gpu:a100:2
        kinds = [kind.split(":") for kind in self.gres.split(",")]
        return sum(int(kind[-1]) if kind[-1].isdigit() else 1 for kind in kinds if kind[0].endswith("gpu"))


GROUP = "hydra/launcher"
DEFAULT = "auto"
"""the launcher of a sweep that names none"""


@dataclass
class AutoLauncherConf:
    """Options of `hydra/launcher=auto`: joblib on a machine without a GPU, else basic."""

    n_jobs: int | None = None
    """a number chooses joblib, on every machine"""
    _target_: str = "attnlab.launch.local_processes.Processes"


@dataclass
class JoblibLauncherConf:
    """Options of `hydra/launcher=joblib`: jobs in several processes of this machine."""

    n_jobs: int = -1
    """number of processes; -1 = one for each core, -2 = one less, and so on"""
    _target_: str = "attnlab.launch.local_processes.Processes"


@dataclass
class RayConf:
    """Options of `hydra/launcher=ray`."""

    address: str | None = None
    """of a cluster, such as 10.0.0.1:6379, or auto for the one that `ray start` has started here; null = RAY_ADDRESS if
    it is set, else, as with local, a cluster of this machine that ends with the command"""
    num_cpus: Count | None = None
    """cores of a process, and threads of its runs unless trainer.threads says otherwise; null = trainer.threads, else
    OMP_NUM_THREADS, else 1, and one for each of trainer.workers"""
    num_gpus: NonNegative | None = None
    """GPUs of a run, 0.25 = four runs share one; null = one for each process of a run where the cluster has GPUs,
    unless trainer.device=cpu"""
    max_retries: Natural = 5
    """how often in a row a run is begun again that lost its process or machine and has saved nothing since it began"""
    runtime_env: dict[str, Any] = field(default_factory=dict)
    """environment of the runs on other machines, such as {env_vars: {HF_HOME: /shared/hf}}"""
    _target_: str = "attnlab.launch.ray_launcher.RayLauncher"


NODES: Mapping[str, Any] = {
    DEFAULT: AutoLauncherConf,
    "joblib": JoblibLauncherConf,
    SLURM: SlurmConf,
    RAY: RayConf,
}
"""options of every launcher by its name; `basic` is Hydra's own, without options"""
LAUNCHERS = ("basic", *NODES)
_BASIC = "attnlab.launch.local_processes.OneAfterAnother"


@cache
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


def option_values(launcher: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a `chosen_launcher`, without its name and class."""
    return {key: value for key, value in launcher.items() if key not in ("_name_", "_target_")}


def chosen_launcher(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Name, class and options of a launcher; `auto` with a number of processes means `joblib`."""
    if name == "basic":
        # Hydra's own class is there for searches.
        return {"_name_": name, "_target_": _BASIC}
    return {"_name_": "joblib" if name == DEFAULT and options.get("n_jobs") is not None else name, **options}
