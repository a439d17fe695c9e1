"""The lock of a run folder: one process at a time trains a run, also if several machines share the file system."""

from pathlib import Path

from filelock import FileLock

from attnlab.data.files.file_lock import NoLocks, Timeout, held_lock

LOCK = ".lock"
"""file of the lock; the lock ends with the process that holds it, and the file stays"""
SECONDS = 1.0
"""until a lock counts as held: another process may hold it for a moment to look whether the run is in progress"""


class Locked(Exception):
    """Another process holds the lock."""


def acquired_lock(folder: Path, seconds: float = SECONDS) -> FileLock:
    """The lock of a folder, held by this process until it is released.

    Args:
        seconds: until a lock of another process counts; negative: wait for that process.

    Raises:
        Locked: another process holds it.
        NoLocks: nobody can hold it.
    """
    try:
        return held_lock(folder / LOCK, seconds, "set paths.runs to another file system")
    except Timeout:
        raise Locked from None


def is_locked(folder: Path) -> bool:
    """Whether a process trains the run of a folder; False if the folder cannot be locked at all."""
    if not (folder / LOCK).exists():
        return False
    try:
        acquired_lock(folder, 0.0).release()
    except Locked:
        return True
    except (OSError, NoLocks):
        pass
    return False


def mounts() -> str:
    """The mounts of this machine (/proc/mounts); empty where there is no such file."""
    try:
        return Path("/proc/mounts").read_text()
    except OSError:
        return ""


def private_locks(folder: Path, table: str) -> str:
    """The mount of a folder if other machines do not see its locks, with the option that says so; else empty.

    Args:
        table: content of /proc/mounts (`mounts`). NFS with `nolock` or `local_lock`, and Lustre with `localflock` or
            without `flock`, keep locks on each machine.
    """
    rows = [line.split() for line in table.splitlines()]
    above = [row for row in rows if len(row) > 3 and (folder == Path(row[1]) or Path(row[1]) in folder.parents)]
    if not above:
        return ""
    _, place, kind, text, *_ = max(above, key=lambda row: len(row[1]))
    options = text.split(",")
    if kind.startswith("nfs"):
        why = [option for option in options if option in ("nolock", "local_lock=all", "local_lock=flock")]
    elif kind == "lustre":
        why = [] if "flock" in options else ["localflock" if "localflock" in options else "no flock"]
    else:
        why = []
    return f"{place} ({kind}, {why[0]})" if why else ""
