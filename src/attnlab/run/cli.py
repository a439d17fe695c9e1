"""`python train.py`: check everything, then let Hydra run the job or the sweep.

Nothing here imports torch: help and config errors come back at once.
"""

import os
import sys
from collections.abc import Sequence

from attnlab.config.check import Command, ConfigError, check_command, missing_runs
from attnlab.config.compose import CONF, group_choices
from attnlab.config.nodes import task_yaml
from attnlab.config.overrides import flags_first, with_data_set_names

USAGE_ERROR = 2


def train_main(argv: Sequence[str]) -> int:
    """Run the command line; returns the exit code."""
    if any(argument in ("--help", "-h") for argument in argv):
        from attnlab.config.help import help_text

        print(help_text())
        return 0
    argv = readable(argv)
    try:
        command = check_command(argv)
        shows = any(word.partition("=")[0] in ("--cfg", "-c") for word in argv)
        if not shows and (missing := missing_runs(command.jobs)):
            raise ConfigError(missing)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return USAGE_ERROR
    return _run(command, argv)


def readable(argv: Sequence[str]) -> list[str]:
    """A command line as Hydra and the check read it: parts of GLUE by their option, folders of runs in quotes."""
    name = next((word.partition("=")[2] for word in argv if word.startswith("task=")), "")
    task = task_yaml(name, CONF) if name in group_choices(CONF)["task"] else {}
    return [quoted_folder(word) for word in with_data_set_names(argv, task)]


def quoted_folder(word: str) -> str:
    """`from_run=<folder>` with the folder in quotes: the names of run folders have = and commas, as Hydra's words."""
    key, _, folder = word.partition("=")
    if key.lstrip("+") != "from_run" or folder[:1] in ("'", '"') or folder in ("", "null"):
        return word
    return f"{key}='{folder}'"


def _run(command: Command, argv: Sequence[str]) -> int:
    import hydra
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

    from attnlab.run.jobs import Jobs
    from attnlab.run.workers import joblib_words, run_with_workers

    # Every job has been composed and checked; Hydra would compose all of them once more before the first one starts.
    BasicSweeper.validate_batch_is_legal = lambda *_: None
    # A full traceback is Hydra's only way to show where an error of ours came from.
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    sys.argv[1:] = flags_first(argv)
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
