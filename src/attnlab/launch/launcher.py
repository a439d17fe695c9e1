"""The interface between the jobs of a sweep and the engines that run them: processes, Slurm, Ray, or a user's own."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from attnlab.config.job_config import JobConfig
from attnlab.config.problem import ConfigError, Problem
from attnlab.config.targets import TargetError, load_class
from attnlab.config.validation.launcher_options import GROUP, option_values
from attnlab.launch.run_job import JobTask


class Launcher(ABC):
    """Runs the jobs of a sweep. It is the `_target_` of a `hydra/launcher`, whose other keys are its arguments.

    A job that is run again resumes its run, and two jobs of one run folder must not run at the same time.
    """

    @abstractmethod
    def run(self, tasks: Sequence[JobTask]) -> list[int]:
        """Run jobs and return their exit codes, in their order: 0 for a finished run.

        Raises:
            UserError: the engine cannot be used.
            SystemExit: a signal ended the sweep; with its exit code.
        """

    def problems(self, jobs: Sequence[JobConfig]) -> list[Problem]:
        """Problems of jobs that this engine cannot run, found before the first one begins."""
        return []

    def plan(self, tasks: Sequence[JobTask]) -> list[str]:
        """Lines of `--plan` about the jobs that are left: where they would run, and with what resources."""
        return []


def make_launcher(settings: Mapping[str, Any]) -> Launcher:
    """The launcher of a sweep.

    Args:
        settings: `_name_`, `_target_` and options.

    Raises:
        ConfigError: there is no such class, it is not allowed, or it does not take these options.
    """
    try:
        launcher: Launcher = load_class(settings["_target_"], Launcher)(**option_values(settings))
    except (TargetError, TypeError, ValueError) as error:
        raise ConfigError([Problem(f"{GROUP}={settings['_name_']}", f": {settings['_target_']}: {error}")]) from error
    return launcher
