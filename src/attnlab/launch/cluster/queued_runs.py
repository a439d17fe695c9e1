"""Runs that wait or run in a cluster's queue: `queued.json` in the run folder names the job that will train the run.

A repeated command reads the file and waits for the job, so that no run is started twice. The file is written before the
submission, with a mark that the job carries as its comment (unless the option `comment` was given), and after it, with
the number of the job: if the command is killed in between, the job is found by its mark. The file is ignored if Slurm
no longer holds the job, if the job has another name there, and in a copy of the folder.
"""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from attnlab.data.files.regular_file import LARGEST, read_regular
from attnlab.launch.cluster.slurm_commands import SlurmJob
from attnlab.run.run_folder import write_text

FILE = "queued.json"


@dataclass(frozen=True)
class Queued:
    """A job in a queue.

    job:     its id, `17_3` in an array; empty before Slurm has taken it.
    name:    of the job.
    mark:    comment of the job, by which it is found without its id; empty: it has another comment.
    task:    number in the array.
    cluster: name of the cluster.
    logs:    folder of the file with the output of the job.
    folder:  the run folder.
    options: of the launcher, with which the job was submitted.
    """

    job: str
    name: str
    mark: str
    task: int
    cluster: str
    logs: str
    folder: str
    options: str

    @property
    def log(self) -> Path:
        """File with the output of the job."""
        return Path(self.logs) / f"{self.job}_0_log.out"


def record_queued(folder: Path, queued: Queued) -> None:
    """Write which job will train the run of a folder.

    Raises:
        RunError: the file cannot be written.
    """
    write_text(folder / FILE, json.dumps(asdict(replace(queued, folder=str(folder.resolve())))) + "\n")


def forget_queued(folder: Path) -> None:
    """Remove the record of a finished run, which is never submitted again."""
    with contextlib.suppress(OSError):
        (folder / FILE).unlink(missing_ok=True)


def queued_job(folder: Path, cluster: str, held: Mapping[str, SlurmJob]) -> Queued | None:
    """The job of a run that the cluster still holds; None if there is none, or if the file is damaged."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        queued = Queued(**json.loads(read_regular(folder / FILE, LARGEST)))
        queued = queued if queued.job else replace(queued, job=_marked(queued, held))
        if (queued.cluster, queued.folder) == (cluster, str(folder.resolve())) and held[queued.job].name == queued.name:
            return queued
    return None


def _marked(queued: Queued, held: Mapping[str, SlurmJob]) -> str:
    """The job with the mark and the task number of a record; empty if there is none."""
    marked = (job for job, there in held.items() if queued.mark and there.comment == queued.mark)
    return next((job for job in marked if int(job.partition("_")[2] or 0) == queued.task), "")
