"""Runs that are finished: their results, after the same comparison as before any training. Imports no torch."""

from collections.abc import Mapping
from typing import Any

from attnlab.config.check import ConfigError, checked
from attnlab.config.defaults import completed
from attnlab.config.naming import run_folder
from attnlab.run.run_folder import RunError, RunFolder


def finished_result(folder: RunFolder, raw: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a run that is finished, else None: then its folder is ready for it.

    Raises:
        RunError: the folder holds another run, or one that another version began.
    """
    folder.open_config(raw)
    result = folder.result()
    if result is None:
        folder.require_version()
    elif folder.status().get("state") != "finished":
        # A kill between the result and the status must not leave a finished run looking unfinished.
        folder.set_status("finished")
    return result


def recorded_result(raw: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a run whose folder says that it is finished; None where there may be something to do.

    Nothing is written and no lock is taken: a folder that says so does not change any more, and may be read-only.

    Raises:
        ConfigError: the configuration cannot run.
        RunError: the folder holds another run.
    """
    checked(raw)
    folder = RunFolder(run_folder(raw))
    if not folder.result_file.exists() or folder.status().get("state") != "finished":
        return None
    return finished_result(folder, raw)


def is_finished(raw: dict[str, Any]) -> bool:
    """Whether a run needs nothing any more; what is wrong with its folder, running it will say."""
    try:
        return recorded_result(raw) is not None
    except (ConfigError, RunError):
        return False


def of_run(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A run's own configuration: complete, and without the experiment's table, as another table makes no other runs."""
    return {key: value for key, value in completed(raw).items() if key != "report"}
