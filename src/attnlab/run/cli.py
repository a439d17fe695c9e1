"""`python train.py`: check everything, then let Hydra run the job or the sweep.

Nothing here imports torch: help and config errors come back at once.
"""

import os
import sys
from collections.abc import Sequence

from attnlab.config.check import Command, ConfigError, check_command, missing_runs
from attnlab.config.compose import CONF, group_choices
from attnlab.config.nodes import task_yaml
from attnlab.config.overrides import with_data_set_names

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
    try:
        return _run(command, argv)
    except KeyboardInterrupt:
        return 130


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
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import DictConfig, OmegaConf

    from attnlab.config.naming import run_folder
    from attnlab.run.job import run_job
    from attnlab.run.summary import print_sweep

    codes: list[int] = []

    def job(config: DictConfig) -> None:
        raw = OmegaConf.to_container(config, resolve=True)
        if command.multirun:
            number = HydraConfig.get().job.num + 1
            print(f"[{number}/{len(command.jobs)}] {run_folder(raw)}", file=sys.stderr, flush=True)
        code = run_job(raw, quiet=command.multirun)
        codes.append(code)
        if code > 128:
            # Stopped by a signal: the rest of a sweep must not start.
            raise SystemExit(code)

    # A full traceback is Hydra's only way to show where an error of ours came from.
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    sys.argv[1:] = argv
    hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(job)()
    if command.multirun:
        return print_sweep(command.jobs) or max(codes, default=0)
    return codes[-1] if codes else 0
