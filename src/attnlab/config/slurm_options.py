"""Options of the launcher that uses Slurm by way of submitit, `submitit_slurm`.

Their names and meanings are the ones of Hydra's plugin for submitit, and of `man sbatch`. Nothing here imports
submitit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from attnlab.config.ranges import Count, Natural
from attnlab.config.type_check import conform

SLURM = "submitit_slurm"
"""name of the launcher"""
EARLY_SECONDS = 60
"""by which Slurm may send the signal of a time limit early (man sbatch, --signal)"""
_SET = ("array", "output", "error", "open_mode", "signal", "nodes", "ntasks", "ntasks_per_node", "chdir")
"""options of sbatch that are not the user's"""
LONGEST_MINUTES = 24 * 60
"""time limit of a Slurm job where neither the options nor the partition name a shorter one"""


@dataclass
class SlurmConf:
    """Options of `hydra/launcher=submitit_slurm`."""

    timeout_min: int | None = None
    """time limit of a job in minutes; null = as long as the partition allows, at most 24 hours. A job that needs longer
    saves its runs, goes back into the queue and goes on later"""
    max_num_timeout: int = 100
    """how often a job may go back into the queue because its time was over"""
    signal_delay_s: int = 120
    """seconds before the time limit at which a job saves its runs and stops: more than a step and a checkpoint take"""
    submitit_folder: str | None = None
    """folder of logs and submitted jobs, seen by all nodes; null = a folder for each sweep in <paths.runs>/.sweeps"""
    partition: str | None = None
    """null = the default partition of the cluster"""
    account: str | None = None
    qos: str | None = None
    gpus_per_node: int | None = None
    """null = a GPU for each process of a run where the partition has GPUs, unless trainer.device=cpu"""
    gres: str | None = None
    """generic resources, such as gpu:a100:1, instead of gpus_per_node"""
    cpus_per_task: int | None = None
    """cores of a process, and threads of its runs unless trainer.threads says otherwise; null = trainer.threads, else 1
    on a CPU and 4 beside a GPU, and one for each of trainer.workers"""
    mem_gb: int | None = None
    """memory of a node's processes, in GB; null = 8 for each process where the cluster divides memory among jobs"""
    mem_per_cpu: str | None = None
    mem_per_gpu: str | None = None
    constraint: str | None = None
    exclude: str | None = None
    nodelist: str | None = None
    dependency: str | None = None
    comment: str | None = None
    """null = a mark by which a repeated command finds a job whose submission was interrupted"""
    mail_user: str | None = None
    mail_type: str | None = None
    """when Slurm writes to mail_user, such as END, or FAIL"""
    setup: list[str] | None = None
    """lines of shell before the command, such as [module load cuda]"""
    array_parallelism: int = 256
    """tasks of an array that run at the same time, at most"""
    additional_parameters: dict[str, Any] = field(default_factory=dict)
    """any other option of sbatch, such as {reservation: course}"""
    job_name: str | None = None
    """null = attnlab-<task>-<model>"""


def slurm_problems(launcher: Mapping[str, Any], section: str) -> list[str]:
    """Problems of option values, which Slurm would report late or not at all.

    Args:
        launcher: name and options of the launcher.
        section: prefix of the keys in messages.
    """
    kinds: dict[str, Any] = dict.fromkeys(("timeout_min", "cpus_per_task", "mem_gb", "array_parallelism"), Count | None)
    kinds |= dict.fromkeys(("max_num_timeout", "signal_delay_s", "gpus_per_node"), Natural | None)
    problems: list[str] = []
    for key, kind in kinds.items():
        if key in launcher:
            problems += conform(launcher[key], kind, f"{section}.{key}")
    limit, delay = launcher.get("timeout_min"), launcher.get("signal_delay_s")
    if not problems and limit is not None and delay is not None and (problem := delay_problem(limit, delay)):
        problems.append(f"{section}.signal_delay_s={delay}: {problem}")
    return problems + _doubled(launcher, section) + _further(launcher, section)


def delay_problem(limit: int, delay: int) -> str:
    """Why jobs of `limit` minutes cannot get their signal `delay` seconds before the end; empty if they can."""
    if delay + EARLY_SECONDS < limit * 60:
        return ""
    return (
        f"jobs of {limit} min may be stopped when they start, as Slurm may send the signal {EARLY_SECONDS} seconds "
        "early; expected a longer timeout_min (and partition), or a shorter delay"
    )


def asked_gpus(launcher: Mapping[str, Any]) -> int | None:
    """GPUs on each node that the options ask for; None if they leave that open."""
    if launcher["gpus_per_node"] is not None:
        return int(launcher["gpus_per_node"])
    if launcher["gres"] is None:
        return None
    # such as gpu, gpu:2 and gpu:a100:2
    kinds = [kind.split(":") for kind in str(launcher["gres"]).split(",")]
    return sum(int(kind[-1]) if kind[-1].isdigit() else 1 for kind in kinds if kind[0].endswith("gpu"))


def _further(launcher: Mapping[str, Any], section: str) -> list[str]:
    """Problems of options of sbatch that have an option of the launcher, or that attnlab sets."""
    names = {"time": "timeout_min", "mem": "mem_gb"}
    problems = []
    for key in launcher.get("additional_parameters", {}):
        plain = str(key).replace("-", "_")
        own = names.get(plain, plain)
        if own in launcher:
            problems.append(f"{section}.additional_parameters.{key}: write {section}.{own}=...")
        elif plain in _SET:
            problems.append(
                f"{section}.additional_parameters.{key}: attnlab sets it; expected another option of sbatch"
            )
    return problems


def _doubled(launcher: Mapping[str, Any], section: str) -> list[str]:
    pairs: Sequence[tuple[str, str]] = (("gpus_per_node", "gres"), ("mem_gb", "mem_per_cpu"), ("mem_gb", "mem_per_gpu"))
    both = [pair for pair in pairs if all(launcher.get(key) is not None for key in pair)]
    return [f"{section}.{one}={launcher[one]}: {section}.{two} is given too; write one of them" for one, two in both]
