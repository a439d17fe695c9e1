"""Submission of groups of jobs to Slurm by submitit, in arrays."""

import json
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from attnlab.config.schema import Config
from attnlab.config.slurm_options import LONGEST_MINUTES
from attnlab.launch.cluster.slurm_commands import SlurmError, chosen_partitions, complaint, configuration
from attnlab.launch.cluster.worker_task import WorkerTask
from attnlab.launch.group_task import GroupTask

_OF_SLURM = {"timeout_min": "time", "mem_gb": "mem"}
"""options by the names that submitit's executor has for them"""
_NOT_OF_SLURM = ("name", "submitit_folder", "max_num_timeout", "max_packed", "additional_parameters")
_NO_RESOURCES = ("job_name", "signal_delay_s", "array_parallelism", "comment", "mail_user", "mail_type", "setup")


@dataclass(frozen=True)
class Submitted:
    """A group that was submitted.

    job:  id of its job, `17_3` in an array.
    log:  file with the output of the job.
    name: of the job.
    """

    task: GroupTask
    job: str
    log: Path
    name: str


def sweep_folder(launcher: Mapping[str, Any], runs: str) -> Path:
    """Folder of logs and submitted jobs of a sweep."""
    given = launcher["submitit_folder"]
    return Path(given).expanduser() if given else Path(runs) / ".sweeps" / time.strftime("%Y-%m-%d_%H-%M-%S")


def job_name(task: GroupTask) -> str:
    """`attnlab-<task>-<model>`."""
    config = task.jobs[0].typed
    return f"attnlab-{config.task['name']}-{config.model.name}".replace("/", "-")


class SlurmSubmission:
    """Submission to Slurm: an array for every task and model, or several where it would be larger than Slurm allows.

    Args:
        launcher: name and options of the launcher.
        folder: of `sweep_folder`.

    Raises:
        SlurmError: there is no Slurm, or no such partition.
    """

    def __init__(self, launcher: Mapping[str, Any], folder: Path) -> None:
        self.launcher, self.folder = launcher, folder
        self.options = json.dumps({key: value for key, value in launcher.items() if value is not None}, default=str)
        self.partitions = chosen_partitions(launcher["partition"])
        found = configuration()
        # the name, since other clusters count their jobs too
        self.most, self.cluster = int(found.get("MaxArraySize", 1001)), found.get("ClusterName", "")

    def arrays(self, tasks: Sequence[GroupTask]) -> list[list[GroupTask]]:
        """The tasks of each array: equal in name and resources."""
        alike: dict[tuple[Any, ...], list[GroupTask]] = defaultdict(list)
        for task in tasks:
            alike[job_name(task), tuple(sorted(self.resources(task.jobs[0].typed).items()))].append(task)
        return [found[i : i + self.most] for found in alike.values() for i in range(0, len(found), self.most)]

    def submit(self, tasks: Sequence[GroupTask]) -> list[Submitted]:
        """Submit the tasks of an array.

        Raises:
            SlurmError: Slurm refuses them.
        """
        import submitit
        from submitit.core.utils import FailedJobError, FailedSubmissionError

        given = self.parameters(tasks[0])
        executor = submitit.SlurmExecutor(self.folder, max_num_timeout=self.launcher["max_num_timeout"])
        # Other tasks of a run must not wait for one that has failed.
        plain: dict[str, Any] = {"stderr_to_stdout": True, "srun_args": ["--kill-on-bad-exit=1"]}
        if "cpus_per_task" in given:
            # since Slurm 22.05, srun does not take this number from sbatch
            plain["srun_args"] += [f"--cpus-per-task={given['cpus_per_task']}"]
        more = {"requeue": True} | self.launcher["additional_parameters"]
        try:
            executor.update_parameters(**given, **plain, additional_parameters=more)
            # submitit prints what sbatch says, and raises an error that says it again
            with redirect_stderr(StringIO()), executor.batch():
                jobs = [executor.submit(WorkerTask(task, sys.argv)) for task in tasks]
        except (FailedJobError, FailedSubmissionError) as error:
            asked = ", ".join(f"{key}={value}" for key, value in given.items() if key not in _NO_RESOURCES)
            raise SlurmError(f"Slurm refused the jobs ({complaint(str(error))}), which ask for {asked}") from None
        name = given["job_name"]
        return [Submitted(task, job.job_id, job.paths.stdout, name) for task, job in zip(tasks, jobs, strict=True)]

    def parameters(self, task: GroupTask) -> dict[str, Any]:
        """Options of sbatch for the job of a task, by the names that submitit's executor has for them."""
        options = {key: value for key, value in self.launcher.items() if value is not None}
        given = {_OF_SLURM.get(key, key): value for key, value in options.items() if key not in _NOT_OF_SLURM}
        return {"job_name": job_name(task)} | self.resources(task.jobs[0].typed) | given

    def resources(self, config: Config) -> dict[str, Any]:
        """Resources that the options leave open, by the partition and by the run."""
        limits = [partition.minutes for partition in self.partitions]
        limit = min([LONGEST_MINUTES, *(minutes for minutes in limits if minutes is not None)])
        devices, nodes = config.trainer.devices, config.trainer.nodes
        processes = (self.launcher["gpus_per_node"] or 1) if devices == "auto" else devices
        found: dict[str, Any] = {"nodes": 1 if nodes == "auto" else nodes, "ntasks_per_node": processes}
        found |= {} if self.launcher["timeout_min"] else {"time": limit}
        asked = any(self.launcher[key] is not None for key in ("gpus_per_node", "gres"))
        if not asked and config.trainer.device != "cpu" and all(partition.gpus for partition in self.partitions):
            found["gpus_per_node"] = processes
        return found
