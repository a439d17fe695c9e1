"""Launchers of this machine: one job after the other (`basic`), or several processes (`joblib`, and `auto`)."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from attnlab.config.job_config import JobConfig
from attnlab.config.message_text import counted
from attnlab.config.problem import Problem
from attnlab.launch.launcher import Launcher
from attnlab.launch.run_job import JobTask, say
from attnlab.launch.visible_gpus import gpu_here, visible_gpus
from attnlab.learn.devices.usable_cores import threads_of_environment, usable_cores
from attnlab.run.run_folder import is_finished


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


class Processes(Launcher):
    """Jobs in several processes of this machine, or one after the other in this process.

    Args:
        n_jobs: number of processes; -1 = one for each core, -2 = one less, and so on; None: as many on a machine
            without a GPU, else this process alone.
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs

    def run(self, tasks: Sequence[JobTask]) -> list[int]:
        plan = self.process_plan([task.job for task in tasks])
        if plan is None:
            return [_run_here(task) for task in tasks]
        parallel_tasks = [replace(task, threads=plan.threads, shares_terminal=True) for task in tasks]
        codes = {task.label: _run_here(task) for task in parallel_tasks if is_finished(task.job)}
        if left := [task for task in parallel_tasks if task.label not in codes]:
            from attnlab.launch.worker_pool import WorkerPool

            if line := plan.line(len(left)):
                print(line, file=sys.stderr, flush=True)
            pool = WorkerPool(left, plan.processes, plan.gpus)
            if code := pool.run():
                raise SystemExit(code)
            codes |= pool.codes
        return [codes[task.label] for task in tasks]

    def problems(self, jobs: Sequence[JobConfig]) -> list[Problem]:
        """Jobs on several devices that would run at once would share the devices."""
        if self.n_jobs is None or not any(map(has_several_devices, jobs)):
            return []
        text = ": jobs with trainer.devices or trainer.nodes other than 1 would share the devices"
        return [Problem("hydra/launcher=joblib", f"{text}; hydra/launcher=basic runs them one after the other")]

    def process_plan(self, jobs: Sequence[JobConfig]) -> ProcessPlan | None:
        """The plan of a sweep; None if its jobs run in this process, one after the other.

        It depends on all jobs, finished ones too: a run that is resumed has as many threads as before, and so equal
        bits.
        """
        if any(map(has_several_devices, jobs)):
            return None
        cores, environment_threads = usable_cores(), threads_of_environment()
        set_threads = {job.typed.trainer.threads or environment_threads for job in jobs}
        fitting = max(1, cores // max(threads or 1 for threads in set_threads))
        n_jobs, is_default = self.n_jobs or -1, self.n_jobs is None
        wanted = n_jobs if n_jobs > 0 else max(1, fitting + 1 + n_jobs)
        processes = min(wanted, len({job.folder for job in jobs}))
        if processes < 2 or (is_default and gpu_here()):
            return None
        threads = None if environment_threads else max(1, cores // processes)
        each = {number or threads or 1 for number in set_threads}
        return ProcessPlan(processes, threads, cores, (min(each), max(each)), is_default, visible_gpus())


class OneAfterAnother(Launcher):
    """Jobs one after the other in this process."""

    def run(self, tasks: Sequence[JobTask]) -> list[int]:
        return [_run_here(task) for task in tasks]


def has_several_devices(job: JobConfig) -> bool:
    """Whether a job may be trained in several processes, on several devices."""
    return (job.typed.trainer.devices, job.typed.trainer.nodes) != (1, 1)


def _run_here(task: JobTask) -> int:
    """Run a job in this process, or say that it is finished."""
    if is_finished(task.job):
        elsewhere = ", under another name" if task.job.has_other_name else ""
        say(task.label, f"{task.name}, finished before{elsewhere}")
    code = task.run()
    if code > 128:
        raise SystemExit(code)
    return code
