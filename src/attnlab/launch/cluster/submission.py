"""Submission of jobs to Slurm by submitit, in arrays."""

import json
import signal
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

from attnlab.config.message_text import listed
from attnlab.config.schema import Config
from attnlab.config.validation.launcher_options import LONGEST_MINUTES, requested_gpus
from attnlab.config.validation.launcher_validation import delay_problem
from attnlab.launch.cluster.queued_runs import Queued, record_queued
from attnlab.launch.cluster.slurm_commands import SlurmError, chosen_partitions, complaint, configuration
from attnlab.launch.cluster.wait_for_jobs import Awaited
from attnlab.launch.cluster.worker_task import WorkerTask
from attnlab.launch.run_job import JobTask
from attnlab.run.run_folder import RunError, require_writable

CORES_BESIDE_GPU = 4
"""of a process: the loop that starts kernels, wandb's process, and threads that compile and load"""
MEMORY_GB = 8
"""for a process: runs of all tasks on a CPU took 0.4 to 1.8 GB (experiments/measured/tasks), CUDA takes a few more"""
_RENAMED = ("timeout_min", "mem_gb")
"""options that submitit's executor knows by other names"""
_NOT_OF_SLURM = ("submitit_folder", "max_num_timeout", "additional_parameters")
_NO_RESOURCES = ("job_name", "signal_delay_s", "array_parallelism", "comment", "mail_user", "mail_type", "setup")


def sweep_folder(launcher: Mapping[str, Any], runs: Path) -> Path:
    """Folder of logs and submitted jobs of a sweep."""
    folder = launcher["submitit_folder"]
    return Path(folder).expanduser() if folder else runs / ".sweeps" / time.strftime("%Y-%m-%d_%H-%M-%S")


def job_name(task: JobTask) -> str:
    """`attnlab-<task>-<model>`."""
    config = task.job.typed
    return f"attnlab-{config.task['name']}-{config.model.name}".replace("/", "-")


class SlurmSubmission:
    """Submission to Slurm: an array for every task and model, or several where it would be larger than Slurm allows.

    Args:
        launcher: its options.
        folder: of `sweep_folder`.

    Raises:
        SlurmError: there is no Slurm, or no such partition, or it allows no job long enough to save a run.

    Attributes:
        most: tasks that an array may have.
        limit: minutes of a job.
        divides_memory: whether the cluster shares a node's memory among jobs; one that asks for none may get all of it.
        options: of the launcher, as text.
    """

    def __init__(self, launcher: Mapping[str, Any], folder: Path) -> None:
        self.launcher, self.folder = launcher, folder
        self.options = json.dumps({key: value for key, value in launcher.items() if value is not None}, default=str)
        self.partitions = chosen_partitions(launcher["partition"])
        cluster = configuration()
        # the name, since other clusters count their jobs too
        self.most, self.cluster = max(1, int(cluster.get("MaxArraySize", 1001))), cluster.get("ClusterName", "")
        self.divides_memory = "memory" in cluster.get("SelectTypeParameters", "").lower()
        self.limit = self._limit()

    def arrays(self, tasks: Sequence[JobTask]) -> list[list[JobTask]]:
        """The tasks of each array: equal in name and resources."""
        alike: dict[tuple[Any, ...], list[JobTask]] = defaultdict(list)
        for task in tasks:
            alike[job_name(task), tuple(sorted(self.resources(task.job.typed).items()))].append(task)
        return [group[i : i + self.most] for group in alike.values() for i in range(0, len(group), self.most)]

    def submit(self, tasks: Sequence[JobTask]) -> list[Awaited]:
        """Submit the tasks of an array, and record in every run folder which job will train the run.

        Raises:
            SlurmError: Slurm refuses them.
            RunError: a file cannot be written; then nothing is submitted.
        """
        import submitit
        from submitit.core.utils import FailedJobError, FailedSubmissionError

        mark = "" if self.launcher["comment"] else f"attnlab-{uuid.uuid4().hex}"
        parameters = {"comment": mark} | self.parameters(tasks[0])
        require_writable(self.folder, "set another hydra.launcher.submitit_folder")
        record = Queued("", parameters["job_name"], mark, 0, self.cluster, str(self.folder.resolve()), "", self.options)
        for number, task in enumerate(tasks):
            record_queued(task.folder, replace(record, task=number))
        executor = submitit.SlurmExecutor(self.folder, max_num_timeout=self.launcher["max_num_timeout"])
        # Other tasks of a run must not wait for one that has failed.
        plain: dict[str, Any] = {"stderr_to_stdout": True, "srun_args": ["--kill-on-bad-exit=1"]}
        if "cpus_per_task" in parameters:
            # since Slurm 22.05, srun does not take this number from sbatch
            plain["srun_args"] += [f"--cpus-per-task={parameters['cpus_per_task']}"]
        on_gpu = bool(parameters.get("gpus_per_node") or requested_gpus(self.launcher))
        more = {"requeue": True} | self.launcher["additional_parameters"]
        try:
            executor.update_parameters(**parameters, **plain, additional_parameters=more)
            # submitit prints what sbatch says, and raises an error that says it again
            with _sbatch_without_interrupts(), redirect_stderr(StringIO()), executor.batch():
                jobs = [executor.submit(WorkerTask(replace(task, needs_gpu=on_gpu), sys.argv)) for task in tasks]
        except (FailedJobError, FailedSubmissionError) as error:
            resources = ", ".join(f"{key}={value}" for key, value in parameters.items() if key not in _NO_RESOURCES)
            raise SlurmError(f"Slurm refused the jobs ({complaint(str(error))}), which ask for {resources}") from None
        records = [replace(record, task=number, job=job.job_id) for number, job in enumerate(jobs)]
        for task, queued in zip(tasks, records, strict=True):
            # else the job is found by its mark
            with suppress(RunError):
                record_queued(task.folder, queued)
        return [Awaited(task, queued.job, queued.log) for task, queued in zip(tasks, records, strict=True)]

    def parameters(self, task: JobTask) -> dict[str, Any]:
        """Options of sbatch for the job of a task, by the names that submitit's executor has for them."""
        options = {key: value for key, value in self.launcher.items() if value is not None}
        options_of_slurm = {key: value for key, value in options.items() if key not in (*_NOT_OF_SLURM, *_RENAMED)}
        # a number without a unit would be megabytes
        options_of_slurm |= {"mem": f"{options['mem_gb']}GB"} if "mem_gb" in options else {}
        resources: dict[str, Any] = (
            {"job_name": job_name(task), "time": self.limit} | self.resources(task.job.typed) | options_of_slurm
        )
        processes = resources["ntasks_per_node"]
        if self.divides_memory and not {"mem", "mem_per_cpu", "mem_per_gpu"} & options_of_slurm.keys():
            resources["mem"] = f"{MEMORY_GB * processes}GB"
        return resources

    def resources(self, config: Config) -> dict[str, Any]:
        """Resources that the options leave open, by the partition and by the run."""
        devices, nodes, gpus = config.trainer.devices, config.trainer.nodes, requested_gpus(self.launcher)
        processes = (gpus or 1) if devices == "auto" else devices
        wanted: dict[str, Any] = {"nodes": 1 if nodes == "auto" else nodes, "ntasks_per_node": processes}
        if gpus is None and config.trainer.device != "cpu" and all(partition.gpus for partition in self.partitions):
            wanted["gpus_per_node"] = processes
        threads = config.trainer.threads or (CORES_BESIDE_GPU if gpus or "gpus_per_node" in wanted else 1)
        return wanted | {"cpus_per_task": threads + config.trainer.workers}

    def gpu_note(self) -> str:
        """Note that no GPU is asked for, since only some of the partitions have one; else empty."""
        with_gpus = [partition.name for partition in self.partitions if partition.gpus]
        if requested_gpus(self.launcher) is not None or len(with_gpus) in (0, len(self.partitions)):
            return ""
        return (
            f"note: of the partitions, {listed(with_gpus)} alone has GPUs, so that jobs ask for none; "
            "hydra.launcher.gpus_per_node=1 asks for one"
        )

    def _limit(self) -> int:
        if self.launcher["timeout_min"]:
            return int(self.launcher["timeout_min"])
        limits = [partition.minutes for partition in self.partitions]
        limit = min([LONGEST_MINUTES, *(minutes for minutes in limits if minutes is not None)])
        if problem := delay_problem(limit, self.launcher["signal_delay_s"]):
            raise SlurmError(f"hydra.launcher.signal_delay_s={self.launcher['signal_delay_s']}: {problem}")
        return limit


@contextmanager
def _sbatch_without_interrupts() -> Iterator[None]:
    """Programs that begin in this block do not get the Ctrl-C of the terminal: an interrupted sbatch may have
    submitted its job or not.
    """
    blocked = {signal.SIGINT, signal.SIGHUP}
    former = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)
