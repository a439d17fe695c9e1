"""The lock of the campaign, which its runs hold too; it contains the process of the campaign until this stops."""

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from background.places import WORK, CampaignError, is_alive

LOCK = WORK / "lock"
LONGEST_STOP = 1800
"""seconds that the present steps of all runs may take, with their checkpoints, after a stop signal"""


@contextmanager
def locked(path: Path, seconds: float) -> Iterator[TextIO]:
    """A locked file, waited for if another process holds it.

    Raises:
        CampaignError: it is still held after some seconds.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + seconds
    with path.open("a+") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise CampaignError(f"{path} is still held by another process") from None
                time.sleep(0.2)
        yield lock


def write_pid(lock: TextIO, pid: int | None) -> None:
    """Write the process of the campaign into its lock; None = it stops, and its runs are being saved."""
    lock.seek(0)
    lock.truncate()
    lock.write("" if pid is None else f"{pid}\n")
    lock.flush()


def campaign_process() -> int | None:
    """The process of the running campaign; None where none runs, also while runs of a stopped one are being saved."""
    with suppress(CampaignError), locked(LOCK, 0):
        return None
    text = LOCK.read_text(errors="replace").strip()
    return int(text) if text.isdecimal() and is_alive(int(text)) else None
