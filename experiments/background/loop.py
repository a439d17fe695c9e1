"""The loop of the campaign: trains what is left of the queue."""

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Collection, Sequence
from typing import TextIO

from background.archives import archive_seeds
from background.lock import write_pid
from background.places import OUTPUT, log
from background.queue import read_queue
from background.runs import Cell, cells
from background.weights import AGAIN, Retraining, first_of, remove_emptied, take_weights
from background.worktrees import child, take_lowest_priority, worktree

MOST_FAILURES = 2
"""failed runs of a claim after which its other runs wait for the next `start`"""


def run(lock: TextIO) -> int:
    """Train all runs without an outcome, as many at once as cores; returns the exit code.

    Args:
        lock: the open lock file, which this process holds.
    """
    write_pid(lock, os.getpid())
    take_lowest_priority()
    stopping = stop_signals()
    running: dict[subprocess.Popen[bytes], Cell] = {}
    reports: list[subprocess.Popen[bytes]] = []
    tried: set[Cell] = set()
    try:
        reports += archive_seeds(cells(read_queue()), lock)
        while not stopping:
            while len(running) < len(os.sched_getaffinity(0)) and (cell := next_cell(tried, running.values())):
                tried.add(cell)
                running[begin(cell, lock)] = cell
                log(f"begun: {cell.name}")
            if not running:
                break
            for process in [each for each in running if each.poll() is not None]:
                reports += record_end(running.pop(process), process.returncode, lock)
            reports = [each for each in reports if each.poll() is None]
            time.sleep(0.5)
        for report in reports if not stopping else ():
            report.wait()
    except Exception as error:
        log(f"ended by an error: {error}")
        raise
    finally:
        write_pid(lock, None)
        end([*running, *reports])
    failed = sum(cell.outcome() is None for cell in tried)
    log(f"stopped by {signal.Signals(stopping[0]).name}" if stopping else f"ended; failed runs: {failed}")
    return 128 + stopping[0] if stopping else int(bool(failed))


def stop_signals() -> list[int]:
    """A list to which every stop signal is added that this process gets from now on."""
    stopping: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, frame: stopping.append(number))
    return stopping


def end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Stop all processes, and wait until they have saved their runs."""
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait()


def next_cell(tried: set[Cell], running: Collection[Cell]) -> Cell | None:
    """The first run of the queue that can be trained and was not tried yet, of claims with few failed runs."""
    failures = Counter(cell.claim for cell in tried if cell not in running and cell.outcome() is None)
    members = cells(read_queue())
    by_folder = {cell.folder: cell for cell in members}
    untried = (cell for cell in members if cell not in tried and failures[cell.claim] < MOST_FAILURES)
    first = (first_of(cell, by_folder) for cell in untried if cell.outcome() is None)
    return next((cell for cell in first if cell and cell not in tried and failures[cell.claim] < MOST_FAILURES), None)


def begin(cell: Cell, lock: TextIO) -> subprocess.Popen[bytes]:
    """Start a run. It holds the lock too, and is stopped when this process ends."""
    words = ["train.py", f"experiment=claims/{cell.claim}", *cell.words, "logger=csv", "trainer.progress=none"]
    if isinstance(cell, Retraining):
        remove_emptied(cell)
        words.append(f"paths.runs={os.path.relpath(AGAIN / cell.claim, worktree(cell.commit))}")
    return child(cell.commit, words, lock)


def record_end(cell: Cell, code: int, lock: TextIO) -> list[subprocess.Popen[bytes]]:
    """Log the end of a run, take the weights of one that was trained again, and write the archive of its seed; returns
    the processes of reports."""
    if isinstance(cell, Retraining):
        take_weights(cell)
    log(f"{cell.outcome() or f'failed with exit code {code}, see {OUTPUT.name}'}: {cell.name}")
    return archive_seeds([each for each in cells({cell.claim: cell.commit}) if each.seed == cell.seed], lock)
