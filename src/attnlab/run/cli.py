"""`python train.py`: check everything, then let Hydra run the job or the sweep.

Nothing here imports torch: help and config errors come back at once.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from attnlab.config.check import Command, ConfigError, check_command
from attnlab.config.compose import CONF, group_choices
from attnlab.config.nodes import task_yaml

USAGE_ERROR = 2


def train_main(argv: Sequence[str]) -> int:
    """Run the command line; returns the exit code."""
    if any(argument in ("--help", "-h") for argument in argv):
        from attnlab.config.help import help_text

        print(help_text())
        return 0
    argv = [quoted_folder(word) for word in with_data_set_names(argv)]
    try:
        command = check_command(argv)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return USAGE_ERROR
    try:
        return _run(command, argv)
    except KeyboardInterrupt:
        return 130


def with_data_set_names(argv: Sequence[str]) -> list[str]:
    """The command line with `task.name=cola` read as `task.dataset=cola`, which is how users of GLUE know its parts.

    `task.name` itself is the task's fixed name.
    """
    tasks = [word.partition("=")[2] for word in argv if word.startswith("task=")]
    if not tasks or "dataset" not in task_yaml_or_nothing(tasks[0]):
        return list(argv)
    return [word.replace("task.name=", "task.dataset=", 1) if word.startswith("task.name=") else word for word in argv]


def quoted_folder(word: str) -> str:
    """`from_run=<folder>` with the folder in quotes: the names of run folders have = and commas, as Hydra's words."""
    key, _, folder = word.partition("=")
    if key.lstrip("+") != "from_run" or folder[:1] in ("'", '"') or folder in ("", "null"):
        return word
    return f"{key}='{folder}'"


def task_yaml_or_nothing(name: str) -> Mapping[str, Any]:
    """The `task` part of a task's yaml; empty where there is none of that name."""
    return task_yaml(name, CONF) if name in group_choices(CONF)["task"] else {}


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
