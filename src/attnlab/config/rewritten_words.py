"""Words of a command line rewritten into Hydra's grammar: keys with dashes, data sets of GLUE, names of folders."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attnlab.config.compose import group_choices
from attnlab.config.shipped_files import CONF
from attnlab.config.target_validation import schema_keys, task_yaml


def readable(argv: Sequence[str], conf: Path) -> list[str]:
    """A command line in Hydra's grammar: data sets of GLUE as an option, folders in quotes."""
    return [quoted_folder(word) for word in with_our_names(argv, conf)]


def with_our_names(argv: Sequence[str], conf: Path) -> list[str]:
    """The arguments without dashes before keys, and with the keys that the task has."""
    argv = [without_dashes(word, conf) for word in argv]
    name = next((word.partition("=")[2] for word in argv if word.startswith("task=")), "")
    return with_data_set_names(argv, task_yaml(name, conf) if name in group_choices(conf)["task"] else {})


def without_dashes(word: str, conf: Path = CONF) -> str:
    """An override in the form of wandb's agents, `--optim.lr=0.001`, as `optim.lr=0.001`; else the word unchanged.

    They write Python's values: `None` stands for null.
    """
    key, equals, value = word.removeprefix("--").partition("=")
    first = re.split(r"[./]", key)[0]
    if not (word.startswith("--") and equals) or first not in sections(conf):
        return word
    return f"{key}={'null' if value == 'None' else value}"


def sections(conf: Path = CONF) -> set[str]:
    """First words of keys: sections and groups of the configuration, and Hydra's own."""
    return {*group_choices(conf), "hydra", *(key.partition(".")[0] for key in schema_keys())}


def quoted_folder(word: str) -> str:
    """An override with the folder in quotes, if it sets one (`from_run=`, `paths.*=`); else the override unchanged.

    Folder names can hold blanks, brackets, equals signs and commas, which Hydra's grammar would interpret.
    """
    key, _, folder = word.partition("=")
    name = key.lstrip("+")
    if not (name.rpartition(".")[2] == "from_run" or name.startswith("paths.")):
        return word
    if folder[:1] in ("'", '"') or re.fullmatch(r"[\w./-]*", folder):
        return word
    # In quotes Hydra keeps a backslash, unless a quote follows.
    escaped = re.sub(r"(\\*)('|$)", lambda found: found[1] * 2 + ("\\'" if found[2] else ""), folder)
    return f"{key}='{escaped}'"


def with_data_set_names(words: Sequence[str], task: Mapping[str, Any]) -> list[str]:
    """The arguments with `task.name=cola` replaced by `task.dataset=cola`, as users of GLUE expect.

    Args:
        task: options of the task; without a `dataset` the arguments stay as they are.
    """
    if "dataset" not in task:
        return list(words)
    return [word.replace("task.name=", "task.dataset=", 1) if word.startswith("task.name=") else word for word in words]
