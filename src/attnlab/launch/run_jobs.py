"""Runs the jobs of one `python train.py`: one after the other, in several processes, or on Slurm."""

import sys

from attnlab.config.sweep import Command
from attnlab.config.validation.launcher_options import SLURM
from attnlab.launch.process_plan import ProcessPlan, process_plan
from attnlab.launch.run_job import JobTask, job_tasks, run_job, say
from attnlab.run.run_folder import is_finished


class Jobs:
    """The jobs of a command line and their exit codes.

    Args:
        command: the checked command line.
    """

    def __init__(self, command: Command) -> None:
        self.command = command
        self.codes: list[int] = []

    def run(self) -> int:
        """Run the jobs; returns the exit code: 0 if all are finished.

        Raises:
            SystemExit: a signal stopped a job; the rest of a sweep does not start.
        """
        command, launcher = self.command, self.command.launcher
        if not command.multirun:
            return run_job(command.jobs[0], quiet=False)
        if launcher["name"] == SLURM:
            from attnlab.launch.cluster.run_on_cluster import run_on_cluster

            run_on_cluster(job_tasks(command), launcher, command.jobs[0].typed.paths.runs)
        elif plan := process_plan(launcher, command.jobs):
            self._run_in_processes(plan)
        else:
            for task in job_tasks(command):
                self._run_here(task)
        from attnlab.launch.console_summary import print_sweep

        return print_sweep(command.jobs, command.names, words=command.run_words) or max(self.codes, default=0)

    def _run_in_processes(self, plan: ProcessPlan) -> None:
        """Run the jobs that are not finished in several processes."""
        tasks = []
        for task in job_tasks(self.command, plan.threads, beside=True):
            if is_finished(task.job):
                self._run_here(task)
            else:
                tasks.append(task)
        if not tasks:
            return
        from attnlab.launch.worker_pool import WorkerPool

        if line := plan.line(len(tasks)):
            print(line, file=sys.stderr, flush=True)
        pool = WorkerPool(tasks, plan.processes, plan.gpus)
        if code := pool.run():
            raise SystemExit(code)
        self.codes += pool.codes

    def _run_here(self, task: JobTask) -> None:
        """Run a job in this process."""
        if is_finished(task.job):
            elsewhere = ", under another name" if task.job.has_other_name else ""
            say(task.label, f"{task.name}, finished before{elsewhere}")
        self.codes.append(task.run())
        if self.codes[-1] > 128:
            raise SystemExit(self.codes[-1])
