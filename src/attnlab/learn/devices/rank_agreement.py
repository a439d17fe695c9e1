"""Checks that all processes of a run train the same run, from the same files."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attnlab.config.job_config import JobConfig
from attnlab.config.run_identity import unique_text
from attnlab.learn.devices.process_group import Ranks
from attnlab.learn.devices.rank_layout import RankError


def require_same_job(ranks: Ranks, job: JobConfig) -> None:
    """Refuse processes that torchrun or srun started with different words, or that differ in the runs left to do.

    Raises:
        RankError: on rank 0, which reports it; on the others `EndedElsewhere`. So below.
    """
    values = {key: value for key, value in job.raw.items() if key != "paths"}
    jobs = ranks.gather((job.folder.name, unique_text(values)))
    if other := _other_than_first(jobs):
        ranks.refuse(
            RankError(
                f"rank {other} trains {jobs[other][0]} and rank 0 {jobs[0][0]}, or with other options; start all "
                "processes with the same words, and repeat the command if another one was training these runs"
            )
        )


def require_same_start(ranks: Ranks, step: int, data_hash: Callable[[], str], folder: Path) -> None:
    """Refuse processes with different data or checkpoints: each reads the files, and rank 0 has written them.

    Args:
        step: of the checkpoint that this process has read.
        data_hash: hash of the data that it has read.
        folder: the run folder.
    """
    if ranks.world == 1:
        return
    starts = ranks.gather((step, data_hash()))
    if other := _other_than_first(starts):
        steps = [reached for reached, _ in starts]
        read = "other data than rank 0; paths.data must hold the same files on all machines"
        if steps[other] != steps[0]:
            read = (
                f"a checkpoint of step {steps[other]:,} in {folder}, and rank 0 one of step {steps[0]:,}; paths.runs "
                "must be the same folder on all machines"
            )
        ranks.refuse(RankError(f"rank {other} reads {read}"))


def _other_than_first(values: Sequence[Any]) -> int:
    """The first rank whose value is not the one of rank 0; 0 if there is none."""
    return next((rank for rank, value in enumerate(values) if value != values[0]), 0)
