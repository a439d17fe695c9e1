"""Results of finished runs, after the configuration is compared as before training. Imports no torch."""

from collections.abc import Mapping
from typing import Any

from attnlab.config.job_config import JobConfig
from attnlab.run.run_folder import RunError, RunFolder


def finished_result(folder: RunFolder, job: JobConfig) -> dict[str, Any] | None:
    """Returns the result of a finished run; else None, and the folder is ready for training.

    Raises:
        RunError: the folder holds another run, or an unfinished run of another version.
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
    """Returns the result of a run whose status is finished, else None.

    Nothing is written and no lock is taken: the folder of a finished run does not change, and may be read-only.

    Raises:
        RunError: the folder holds another run.
    """
    folder = RunFolder(job.folder)
    if not folder.result_file.exists():
        return None
    folder.open_config(job.raw)
    return folder.result() if folder.status().get("state") == "finished" else None


def is_finished(job: JobConfig) -> bool:
    """Whether a run is finished; False if its folder has a problem, which training reports."""
    try:
        return recorded_result(job) is not None
    except RunError:
        return False


def objective(result: Mapping[str, Any]) -> tuple[str, float] | None:
    """Name and value of the validation metric of the tested weights, which a search optimises; else None."""
    selection = result.get("selection", {})
    return next(((name, value) for name, value in selection.items() if name.startswith("val/")), None)
