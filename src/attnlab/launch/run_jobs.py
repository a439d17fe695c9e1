"""Runs the jobs of one `python train.py`: one after the other, packed, in several processes, or on Slurm."""

import sys
from collections.abc import Sequence

from attnlab.config.pack_grouping import describe, ranges
from attnlab.config.slurm_options import ON_SLURM
from attnlab.config.sweep import Command
from attnlab.launch.group_task import GroupTask, packing_note, say
from attnlab.launch.job_groups import JobGroup, job_groups
from attnlab.launch.process_plan import ProcessPlan, process_plan
from attnlab.launch.run_job import run_job
from attnlab.run.finished_run import is_finished


class Jobs:
    """The jobs of a command line and their exit codes.

    Args:
        command: the checked command line.
    """

    def __init__(self, command: Command) -> None:
        self.command, self.total = command, len(command.jobs)
        self.codes: list[int] = []

    def run(self) -> int:
        """Run the jobs; returns the exit code: 0 if all are finished.

        Raises:
            SystemExit: a signal stopped a job; the rest of a sweep does not start.
        """
        command, launcher = self.command, self.command.launcher
        if not command.multirun:
            return run_job(command.jobs[0], quiet=False)
        groups = job_groups(command.jobs, launcher)
        if launcher["name"] in ON_SLURM:
            from attnlab.launch.cluster.run_on_cluster import run_on_cluster

            run_on_cluster([self.task(group) for group in groups], launcher, command.jobs[0].typed.paths.runs)
        else:
            self._run_on_this_machine(groups)
        from attnlab.launch.console_summary import print_sweep

        return print_sweep(command.jobs, command.names, words=command.words) or max(self.codes, default=0)

    def _run_on_this_machine(self, groups: Sequence[JobGroup]) -> None:
        tasks = [self.task(group) for group in groups]
        if note := packing_note(tasks):
            say("", note)
        if plan := process_plan(self.command.launcher, tasks):
            self._run_in_processes(plan, groups)
            return
        for group in groups:
            self._run_here(group)

    def _run_in_processes(self, plan: ProcessPlan, groups: Sequence[JobGroup]) -> None:
        """Run the jobs that are not finished in several processes."""
        tasks = []
        for group in groups:
            task = self.task(group, plan.threads, beside=True)
            if all(map(is_finished, task.jobs)):
                self._run_here(group)
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

    def task(self, group: JobGroup, threads: int | None = None, beside: bool = False) -> GroupTask:
        """The jobs of a group, to be run in some process; threads and beside: as in `GroupTask`."""
        jobs = tuple(self.command.jobs[number] for number in group.numbers)
        label = f"[{ranges(number + 1 for number in group.numbers)}/{self.total}]"
        most = self.command.launcher.get("max_packed")
        name = describe(jobs) if len(jobs) > 1 else self.command.names[group.numbers[0]]
        return GroupTask(jobs, label, name, threads, beside, most, reason=group.reason)

    def _run_here(self, group: JobGroup) -> None:
        """Run a group in this process."""
        task, job = self.task(group), self.command.jobs[group.numbers[0]]
        if len(task.jobs) == 1 and is_finished(job):
            name = self.command.names[group.numbers[0]]
            say(task.label, f"{name}, finished before" + (", under another name" if job.has_other_name else ""))
        self.codes.append(task.run())
        if self.codes[-1] > 128:
            raise SystemExit(self.codes[-1])
