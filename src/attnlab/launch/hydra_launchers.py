"""Sweeps by launchers that are plugins of Hydra: joblib in processes of this machine, submitit on Slurm."""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import hydra

from attnlab.config.command_line_words import flags_first
from attnlab.config.own_conf import join_search_path
from attnlab.config.rewritten_words import readable
from attnlab.config.shipped_files import CONF
from attnlab.launch.joblib_workers import joblib_words, run_with_workers
from attnlab.launch.run_jobs import Jobs


def run_with_hydra(jobs: Jobs, argv: Sequence[str]) -> int:
    """Run a sweep with a launcher of Hydra; the exit code.

    The launcher starts processes, where Hydra composes each job again and calls `jobs` with it.

    Args:
        argv: the command line of the sweep.
    """
    command = jobs.command
    run = hydra_main(jobs, [*argv, *command.choices])
    if command.launcher["name"] != "joblib":
        run()
        return jobs.exit_code()
    sys.argv += joblib_words(command.launcher, len(command.jobs))
    code = run_with_workers(run)
    return code if code > 128 else jobs.exit_code() or code


def hydra_main(task: Callable[[Any], Any], argv: Sequence[str]) -> Callable[[], Any]:
    """The main function of Hydra for a command line."""
    # Without it, Hydra hides the traceback of our errors.
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    sys.argv[1:] = flags_first(readable(argv, CONF))
    join_search_path()
    return hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(task)
