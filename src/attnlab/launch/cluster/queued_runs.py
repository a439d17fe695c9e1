"""Runs that wait or run in a cluster's queue: `queued.json` in the run folder names the job that will train the run.

It outlives the process that submitted the job, so that a repeated command waits for the job instead of starting the
run twice. A job that Slurm no longer holds, or that has another name there, does not count, nor does the file in a copy
of the folder.
"""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from attnlab.launch.cluster.slurm_commands import SlurmJob
from attnlab.run.run_folder import write_text

FILE = "queued.json"


@dataclass(frozen=True)
class Queued:
    """A job in a queue.

    job:     its id, `17_3` in an array.
    name:    of the job.
    cluster: name of the cluster.
    log:     file with the output of the job.
    folder:  the run folder.
    options: of the launcher, with which the job was submitted.
    """

    job: str
    name: str
    cluster: str
    log: str
    folder: str
    options: str


def record_queued(folder: Path, job: str, name: str, cluster: str, log: Path, options: str) -> None:
    """Write which job will train the run of a folder.

    Raises:
        RunError: the file cannot be written.
    """
    queued = Queued(job, name, cluster, str(log), str(folder.resolve()), options)
    write_text(folder / FILE, json.dumps(asdict(queued)) + "\n")


def no_longer_queued(folder: Path) -> None:
    """Remove the record of a job that has ended."""
    with contextlib.suppress(OSError):
        (folder / FILE).unlink(missing_ok=True)


def queued_job(folder: Path, cluster: str, held: Mapping[str, SlurmJob]) -> Queued | None:
    """The job of a run that the cluster still holds; None if there is none, or if the file is damaged."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        found = Queued(**json.loads((folder / FILE).read_text()))
        if (found.cluster, found.folder) == (cluster, str(folder.resolve())) and held[found.job].name == found.name:
            return found
    return None
