"""Runs the jobs of one `python train.py` by the launcher of the sweep."""

from attnlab.config.sweep import Command
from attnlab.launch.launcher import make_launcher
from attnlab.launch.run_job import job_tasks, run_job


def run_jobs(command: Command) -> int:
    """Run the jobs of a checked command line; returns the exit code: 0 if all are finished.

    Raises:
        SystemExit: a signal stopped a job; the rest of a sweep does not start.
    """
    if not command.multirun:
        return run_job(command.jobs[0], quiet=False)
    codes = make_launcher(command.launcher).run(job_tasks(command))
    from attnlab.launch.console_summary import print_sweep

    return print_sweep(command.jobs, command.names, words=command.run_words) or max(codes, default=0)
