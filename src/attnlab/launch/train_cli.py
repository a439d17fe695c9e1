"""`python train.py`: check everything, then let Hydra run the job or the sweep.

Nothing here imports torch: help and config errors come back at once.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from attnlab.config.apply_overrides import flatten
from attnlab.config.check import ConfigError
from attnlab.config.compose import CONF
from attnlab.config.overrides import flags_first, readable
from attnlab.config.suggest import hint, nearest, nearest_key
from attnlab.config.sweep import Command, check_command
from attnlab.run.warm_start_check import from_run_problems

USAGE_ERROR = 2


def train_main(argv: Sequence[str]) -> int:
    """Run the command line; returns the exit code."""
    if any(argument in ("--help", "-h") for argument in argv):
        from attnlab.config.help import help_text

        print(help_text())
        return 0
    try:
        command = check_command(argv)
        shown = flag_value(argv, "--cfg", "-c")
        if shown == "job":
            print(job_text(command.jobs[0], flag_value(argv, "--package", "-p")), end="")
            return 0
        if not shown and (unfit := from_run_problems(command.jobs)):
            raise ConfigError(unfit)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return USAGE_ERROR
    return _run(command, argv)


def flag_value(argv: Sequence[str], *names: str) -> str:
    """The value of a flag, `--cfg job` or `--cfg=job`; empty where it is not given."""
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name in names:
            return value if equals else following
    return ""


def job_text(config: Mapping[str, Any], package: str) -> str:
    """A job's configuration as its run reads it, complete and resolved, where Hydra would print what the yamls say.

    Args:
        package: the dotted key of the part to show, as Hydra's `--package`; empty = all.

    Raises:
        ConfigError: no such part.
    """
    part: Any = config
    for name in filter(None, package.split(".") if package != "_global_" else ()):
        if not isinstance(part, Mapping) or name not in part:
            near = hint(nearest_key(package, flatten(config)) if "." in package else nearest(package, config))
            raise ConfigError([f"--package {package}: no such part{near}"])
        part = part[name]
    return yaml.safe_dump(part, sort_keys=False)


def _run(command: Command, argv: Sequence[str]) -> int:
    import hydra
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

    from attnlab.launch.hydra_jobs import Jobs
    from attnlab.launch.joblib_workers import joblib_words, run_with_workers

    # Every job has been composed and checked; Hydra would compose all of them once more before the first one starts.
    BasicSweeper.validate_batch_is_legal = lambda *_: None
    # A full traceback is Hydra's only way to show where an error of ours came from.
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    sys.argv[1:] = flags_first(readable(argv, CONF))
    jobs, name = Jobs(command, argv), command.launcher["name"]
    run = hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(jobs)
    if name != "basic" and not command.multirun:
        print(f"note: hydra/launcher={name} has nothing to do: this is one run, not a sweep (-m)", file=sys.stderr)
    if name != "joblib" or not command.multirun:
        run()
        return jobs.exit_code()
    sys.argv += joblib_words(command.launcher, len(command.jobs))
    code = run_with_workers(run)
    return code if code > 128 else jobs.exit_code() or code
