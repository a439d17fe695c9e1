"""Runs that are finished: their results, after the same comparison as before any training. Imports no torch."""

from typing import Any

from attnlab.config.job_config import JobConfig
from attnlab.run.run_folder import RunError, RunFolder


def finished_result(folder: RunFolder, job: JobConfig) -> dict[str, Any] | None:
    """The result of a run that is finished, else None: then its folder is ready for it.

    Raises:
        RunError: the folder holds another run, or one that another version began.
    """
    folder.open_config(job.raw)
    result = folder.result()
    if result is None:
        folder.require_version()
    elif folder.status().get("state") != "finished":
        # A kill between the result and the status must not leave a finished run looking unfinished.
        folder.set_status("finished")
    return result


def recorded_result(job: JobConfig) -> dict[str, Any] | None:
    """The result of a run whose folder says that it is finished; None where there may be something to do.

    Nothing is written and no lock is taken: a folder that says so does not change any more, and may be read-only.

    Raises:
        RunError: the folder holds another run.
    """
    folder = RunFolder(job.folder)
    if not folder.result_file.exists() or folder.status().get("state") != "finished":
        return None
    return finished_result(folder, job)


def is_finished(job: JobConfig) -> bool:
    """Whether a run needs nothing any more; what is wrong with its folder, running it will say."""
    try:
        return recorded_result(job) is not None
    except RunError:
        return False
