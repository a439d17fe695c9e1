"""The lock of a run folder: one process at a time trains a run, also if several machines share the file system."""

import fcntl
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock

from attnlab.data.files.file_lock import held_lock
from attnlab.data.files.regular_file import open_regular

LOCK = ".lock"
"""file of the lock; the lock ends with the process that holds it, and the file stays"""
SECONDS = 1.0
"""until a lock counts as held: another process may hold it for a moment to look whether the run is in progress"""


def acquired_lock(folder: Path, seconds: float = SECONDS) -> FileLock:
    """The lock of a folder, as `held_lock`; `seconds`: until the lock of another process counts (Timeout)."""
    return held_lock(folder / LOCK, seconds, "set paths.runs to another file system")


def is_locked(folder: Path) -> bool:
    """Whether a process trains the run of a folder; False if the folder cannot be locked at all."""
    return _is_held(folder) is True


def is_alive(status: Mapping[str, Any], folder: Path) -> bool:
    """Whether the process of a run still runs: by the lock of its folder, as another process may have its number now.

    Where it cannot be asked, the number decides on the machine of the run; elsewhere the process counts as alive.
    """
    held = _is_held(folder)
    if status.get("host") != socket.gethostname():
        return held is True or bool(private_locks(folder.absolute()))
    if held is not None:
        return held
    try:
        os.kill(status["pid"], 0)
    except (KeyError, OverflowError, ProcessLookupError):
        return False
    except PermissionError:
        pass
    return True


def _is_held(folder: Path) -> bool | None:
    """Whether a process holds the lock of a folder; None if there is no lock to ask.

    Asked for reading, as the folder may be read-only, and shared, so that two that ask do not see each other.
    """
    try:
        with open_regular(folder / LOCK) as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False


def private_locks(folder: Path, mounts: Path = Path("/proc/mounts")) -> str:
    """The mount of a folder if other machines do not see its locks, with the option that says so; else empty.

    NFS with `nolock` or `local_lock`, and Lustre with `localflock` or without `flock`, keep locks on each machine.
    """
    rows = [line.split() for line in mounts.read_text().splitlines()] if mounts.exists() else []
    above = [row for row in rows if len(row) > 3 and (folder == Path(row[1]) or Path(row[1]) in folder.parents)]
    _, place, kind, text, *_ = max(above, key=lambda row: len(row[1]), default=("", "", "", ""))
    options = text.split(",")
    why = []
    if kind.startswith("nfs"):
        why = [option for option in options if option in ("nolock", "local_lock=all", "local_lock=flock")]
    elif kind == "lustre" and "flock" not in options:
        why = ["localflock" if "localflock" in options else "no flock"]
    return f"{place} ({kind}, {why[0]})" if why else ""
