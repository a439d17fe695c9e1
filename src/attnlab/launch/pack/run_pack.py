"""Many runs trained together in one process, each with its own folder, numbers and end.

`hydra/launcher=packed` calls this with jobs that differ in seed and scalar values only (`config.pack_grouping`). The
files of a run are those of the same run by itself, and either way can go on where the other stopped.
"""

import sys
import warnings
from collections.abc import Sequence
from contextlib import ExitStack

from attnlab.config.job_config import JobConfig
from attnlab.launch.pack.pending_run import Entry, by_step, entries_of, fail
from attnlab.launch.pack.trainer import Shared
from attnlab.launch.run_job import run_job
from attnlab.learn.lightning_trainer import quiet_lightning
from attnlab.learn.stop_signals import Stopped, StopRequest


def run_pack(jobs: Sequence[JobConfig], max_packed: int | None = None) -> list[int]:
    """Train, resume or show runs that differ in seed and scalar values only.

    Args:
        max_packed: most runs at once; None: as many as fit into memory.

    Returns:
        the exit code of each, as `run_job` gives it; after a signal, of those that had not begun too.
    """
    entries = entries_of(jobs)
    quiet_lightning()
    # Of fused softmax, which has no rule for stacks on the CPU and goes through them one by one.
    warnings.filterwarnings("ignore", message="There is a performance drop")
    stop = StopRequest()
    with ExitStack() as held:
        held.enter_context(stop.listening())
        try:
            for entry in entries:
                entry.open(held)
            _train_all(entries, max_packed, stop)
        except Stopped as stopped:
            for entry in entries:
                if entry.code is None:
                    entry.end(stopped)
    stop.pass_on()
    return _with_the_rest(entries)


def _with_the_rest(entries: Sequence[Entry]) -> list[int]:
    """Exit codes; a run that nobody could share a step with is trained by itself, unless a signal stops it all."""
    stopped = 0
    for entry in entries:
        if entry.code is None and not stopped:
            print(f"alone: {entry.name}, at step {entry.step}, where no other run is", file=sys.stderr, flush=True)
            entry.code = run_job(entry.job, quiet=True)
        if entry.code is None:
            entry.code = stopped
        stopped = max(stopped, entry.code if entry.code > 128 else 0)
    return [entry.code for entry in entries]


def _train_all(entries: Sequence[Entry], max_packed: int | None, stop: StopRequest) -> None:
    """Train what is not finished: runs that are at the same step together. One that is left alone is left over."""
    shared: Shared | None = None
    for group in by_step(entries):
        if len(group) < 2:
            continue
        try:
            shared = shared or Shared(group[0], stop)
            limit = max_packed or shared.most()
        except Exception as error:
            fail([entry for entry in entries if entry.code is None], error)
            return
        if limit < len(group):
            shared.reporter.say(f"{len(group)} runs, {limit} at once (hydra.launcher.max_packed)")
        for first in range(0, len(group), limit):
            shared.train(group[first : first + limit])
