"""Number of processes in which the jobs of a sweep run, and of the threads of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnlab.config.job_config import JobConfig
from attnlab.config.message_text import counted
from attnlab.config.problem import Problem
from attnlab.config.validation.launcher_options import DEFAULT
from attnlab.launch.visible_gpus import gpu_here, visible_gpus
from attnlab.learn.devices.usable_cores import threads_of_environment, usable_cores

_LOCAL = "joblib"


@dataclass(frozen=True)
class ProcessPlan:
    """How the jobs of a sweep run at once.

    processes:  at least 2.
    threads:    of a job without `trainer.threads`; None = as OMP_NUM_THREADS says.
    cores:      that this process may use.
    per_job:    smallest and largest number of threads of the jobs.
    is_default: chosen by `hydra/launcher=auto`.
    gpus:       over which the processes are spread; empty: as this process sees them.
    """

    processes: int
    threads: int | None
    cores: int
    per_job: tuple[int, int]
    is_default: bool
    gpus: tuple[str, ...] = ()

    def line(self, jobs: int) -> str:
        """Line to print before the first of so many unfinished jobs; empty if there is nothing to say."""
        processes, (least, most) = min(self.processes, jobs), self.per_job
        threads = counted(most, "thread") if least == most else f"{least} to {most} threads"
        cores = counted(self.cores, "core")
        if self.is_default:
            how = f"jobs run in {counted(processes, 'process')} on {cores}, {threads} each (hydra/launcher=joblib)"
            return f"no GPU here: {how}; hydra/launcher=basic runs one after the other"
        if processes * most > self.cores:
            fitting = counted(max(1, self.cores // most), "process")
            how = f"{counted(processes, 'process')} with {threads} each share {cores}"
            return f"note: {how}, which is no faster than {fitting} and takes more memory (hydra.launcher.n_jobs)"
        return ""


def process_plan(launcher: Mapping[str, Any], jobs: Sequence[JobConfig]) -> ProcessPlan | None:
    """The plan of a sweep; None if its jobs run in this process, one after the other.

    It depends on all jobs, finished ones too: a run that is resumed has as many threads as before, and so equal bits.
    """
    is_default = launcher["name"] == DEFAULT
    if launcher["name"] != _LOCAL and not is_default:
        return None
    if any(map(has_several_devices, jobs)):
        return None
    cores, environment_threads = usable_cores(), threads_of_environment()
    set_threads = {job.typed.trainer.threads or environment_threads for job in jobs}
    fitting = max(1, cores // max(threads or 1 for threads in set_threads))
    n_jobs = -1 if is_default else launcher["n_jobs"]
    wanted = n_jobs if n_jobs > 0 else max(1, fitting + 1 + n_jobs)
    processes = min(wanted, len({job.folder for job in jobs}))
    if processes < 2 or (is_default and gpu_here()):
        return None
    threads = None if environment_threads else max(1, cores // processes)
    each = {number or threads or 1 for number in set_threads}
    return ProcessPlan(processes, threads, cores, (min(each), max(each)), is_default, visible_gpus())


def has_several_devices(job: JobConfig) -> bool:
    """Whether a job may be trained in several processes, on several devices."""
    return (job.typed.trainer.devices, job.typed.trainer.nodes) != (1, 1)


def joblib_problems(launcher: Mapping[str, Any], jobs: Sequence[JobConfig]) -> list[Problem]:
    """The problem of jobs on several devices that would run at once on this machine: they would share the devices."""
    if launcher.get("name") != _LOCAL or not any(map(has_several_devices, jobs)):
        return []
    text = ": jobs with trainer.devices or trainer.nodes other than 1 would share the devices"
    advice = "; hydra/launcher=basic runs them one after the other"
    return [Problem(f"hydra/launcher={_LOCAL}", text + advice)]
