"""Training of many runs together in one process; each run has its own folder, metrics and end.

`hydra/launcher=packed` calls `run_pack` with jobs that differ in seed and scalar values only (`config.pack_grouping`).
A run folder holds the same files as without packing, so that a packed run can be resumed alone, and the reverse.
"""

import sys
import warnings
from collections.abc import Sequence
from contextlib import ExitStack

from attnlab.config.job_config import JobConfig
from attnlab.launch.pack.pending_run import PendingRun, by_step, end_all, pending_runs
from attnlab.launch.pack.trainer import PackTrainer
from attnlab.launch.run_job import run_job
from attnlab.learn.lightning_trainer import quiet_lightning
from attnlab.learn.stop_signals import Stopped, StopRequest


def run_pack(jobs: Sequence[JobConfig], max_packed: int | None = None, label: str = "") -> list[int]:
    """Train or resume runs that differ in seed and scalar values only.

    Args:
        max_packed: maximal number of runs at once; None: as many as fit into memory.
        label: printed before every line, if other processes write to the same terminal.

    Returns:
        the exit code of each run, as from `run_job`; after a signal, also of runs that had not started.
    """
    runs = pending_runs(jobs)
    quiet_lightning()
    # From fused softmax: on the CPU it has no batching rule and is computed for one network after the other.
    warnings.filterwarnings("ignore", message="There is a performance drop")
    stop = StopRequest()
    with ExitStack() as locks:
        try:
            locks.enter_context(stop.listening())
            for run in runs:
                run.open(locks)
            _train_all(runs, max_packed, stop, label)
        except Stopped as stopped:
            end_all(runs, stopped)
    stop.pass_on()
    return _with_the_rest(runs, label)


def _with_the_rest(runs: Sequence[PendingRun], label: str) -> list[int]:
    """Exit codes; a run that is alone at its step is trained by itself, unless a signal stops everything."""
    stopped = 0
    for run in runs:
        if run.code is None and not stopped:
            at = f" at step {run.step:,}" if run.step else ""
            print(f"{label} alone: {run.name}, no other run to train{at}".lstrip(), file=sys.stderr, flush=True)
            run.code = run_job(run.job, quiet=True, label=label)
        if run.code is None:
            run.code = stopped
        stopped = max(stopped, run.code if run.code > 128 else 0)
    return [code for run in runs if (code := run.code) is not None]


def _train_all(runs: Sequence[PendingRun], max_packed: int | None, stop: StopRequest, label: str) -> None:
    """Train runs that are at the same step together; a run that is alone at its step is left out."""
    trainer: PackTrainer | None = None
    for group in by_step(runs):
        if len(group) < 2:
            continue
        try:
            trainer = trainer or PackTrainer(group[0], stop, label)
            limit = max_packed or trainer.most()
        except Exception as error:
            end_all(runs, error)
            return
        if limit < len(group):
            trainer.reporter.say(f"{len(group)} runs, {limit} at once (hydra.launcher.max_packed)")
        for first in range(0, len(group), limit):
            trainer.train(group[first : first + limit])
