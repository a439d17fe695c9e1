"""Folders and files that a user names: `~` and `~user` stand for home folders, addresses are refused.

The configuration expands them once, where it is completed, so that a run's config.yaml has paths for any program.
Environment variables in them are left to the shell.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnlab.config.problem import ConfigError, Problem

FOLDERS = ("data", "cache", "runs")
"""keys of `paths`"""
PATH_OPTIONS = ("from_run", "tokenizer")
"""options of tasks that are paths; a task expands them itself, as they are part of a run's identity as written"""
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
"""Beginning of an address such as s3://bucket; a path object of it has one slash"""


def expanded(text: str) -> str:
    """A path with the home folder for `~` or `~user` at its beginning."""
    return os.path.expanduser(text)


def path_problem(key: str, text: str) -> Problem | None:
    """Why an expanded path names nothing in a file system of this machine; None if it may."""
    if address := _ADDRESS.match(text):
        allowed = "expected a folder or file of this machine (mount the storage, or copy what is there)"
        return Problem(key, f"={text}: {address[0].rstrip('/')}// is an address; {allowed}")
    if text.startswith("~"):
        user = text.partition("/")[0]
        return Problem(key, f"={text}: this machine has no home folder of {user}; write ./{text} for that name itself")
    return None


def user_path(key: str, text: str | Path) -> Path:
    """The path that a user gives, expanded.

    Raises:
        ConfigError: it is an address, or the home folder of nobody.
    """
    path = expanded(str(text))
    if problem := path_problem(key, path):
        raise ConfigError([problem])
    return Path(path)


def with_expanded_paths(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration with its own paths expanded; those of a task's options are read by the task."""
    paths, source = config.get("paths"), config.get("from_run")
    if isinstance(paths, Mapping):
        folders = {key: expanded(paths[key]) for key in FOLDERS if isinstance(paths.get(key), str)}
        config = {**config, "paths": {**paths, **folders}}
    return {**config, "from_run": expanded(source)} if isinstance(source, str) else config
