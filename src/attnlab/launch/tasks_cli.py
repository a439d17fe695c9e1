"""Command line of `python -m attnlab.tasks`: lists all tasks, or prepares and shows one.

Nothing here imports torch, so that help and usage errors are printed at once.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from attnlab.config.command_line.command_frame import command
from attnlab.config.command_line.words import with_data_set_names
from attnlab.config.conf_files import aliases, group_choices, task_yaml
from attnlab.config.message_text import hint
from attnlab.config.nearest_word import choice
from attnlab.config.problem import ConfigError, Problem
from attnlab.config.shipped_files import CONF
from attnlab.config.user_path import user_path

PROGRAM = "-m attnlab.tasks"
HELP = """python -m attnlab.tasks [task] [key=value ...]

  python -m attnlab.tasks                      every task: kind, splits, sizes, an example, which of its official files
                                               are here, from where to get the others and where to put them
  python -m attnlab.tasks scan                 one task, prepared: its subsets with their sizes, time and room it takes,
                                               an example of each subset
  python -m attnlab.tasks scan task.split=simple paths.data=/data

  task.*    options of the task, as on train.py's command line: conf/task/<task>.yaml lists them
  paths.*   paths.data: where official files are (also ATTNLAB_DATA); paths.cache: where prepared data is kept (also
            ATTNLAB_CACHE)
  pictures= a PNG file, for a sheet of samples of a task that has pictures

Exit code 1: the data cannot be had (the message says what is missing); 2: a word that is none of these."""


@command(lambda: HELP, needs_words=False)
def main(argv: Sequence[str], conf: Path = CONF) -> int:
    """Run the command line; returns the exit code."""
    sheets = [user_path("pictures", word.partition("=")[2]) for word in argv if word.startswith("pictures=")]
    name, overrides = _task_and_overrides([word for word in argv if not word.startswith("pictures=")], conf)
    configs = [_config(task, overrides, conf) for task in ([name] if name else group_choices(conf)["task"])]
    from attnlab.launch.task_listing import show_all, show_task

    if name:
        show_task(configs[0], sheets[-1] if sheets else None)
    else:
        show_all(configs)
    return 0


def _task_and_overrides(argv: Sequence[str], conf: Path) -> tuple[str | None, list[str]]:
    """The named task, if any, and the overrides.

    Raises:
        ConfigError: flags, unknown or several tasks, options of other sections, or options without a task.
    """
    tasks = group_choices(conf)["task"]
    words = [word.removeprefix("task=") for word in argv]
    flags = [word for word in words if word.startswith("-")]
    names = [word for word in words if "=" not in word and word not in flags]
    overrides = [word for word in words if "=" in word and word not in flags]
    known = [task_yaml(name, conf) for name in names if name in tasks]
    overrides = with_data_set_names(overrides, known[0] if known else {})
    problems = [Problem(word, ": unknown flag; there is --help") for word in flags]
    unknown = {name: choice(name, tasks, "tasks", aliases("task", conf)) for name in names if name not in tasks}
    problems += [Problem(name, f": no such task{offer}") for name, offer in unknown.items()]
    if len(names) > 1:
        problems.append(Problem(" ".join(names), ": one task at a time, or none for all of them"))
    for word in overrides:
        key = word.partition("=")[0].lstrip("+")
        if key.startswith("task.") and not names:
            text = f": of which task? write its name first: python {PROGRAM} <task> {quote(word)}"
            problems.append(Problem(word, text))
        elif not key.startswith(("task.", "paths.")):
            near = next((f"task.{key}" for options in known if key in options), None)
            problems.append(Problem(word, f": data depends on task.* and paths.* only{hint(near)}"))
    if problems:
        raise ConfigError(problems, PROGRAM)
    return (names[0] if names else None), overrides


def _config(task: str, overrides: Sequence[str], conf: Path) -> dict[str, Any]:
    """The configuration of train.py for this task and these overrides.

    Raises:
        ConfigError: with all problems of `task` and `paths`; the default model need not fit the task.
    """
    from attnlab.config.sweep import Command

    command = Command([f"task={task}", *overrides], conf)
    problems = [problem for problem in command.problems if re.match(r"[+~]*(task|paths)\b", problem.key)]
    if problems or not command.configs:
        raise ConfigError(problems or command.problems, PROGRAM)
    return command.configs[0]
