"""The lock of a run folder: one process at a time trains a run, also if several machines share the file system."""

from pathlib import Path

from filelock import FileLock, Timeout

LOCK = ".lock"
"""file of the lock; the lock ends with the process that holds it, and the file stays"""
SECONDS = 1.0
"""until a lock counts as held: another process may hold it for a moment to look whether the run is in progress"""


def run_lock(folder: Path, seconds: float = SECONDS) -> FileLock:
    """The lock of a run folder, not yet acquired."""
    return FileLock(folder / LOCK, timeout=seconds)


def is_locked(folder: Path) -> bool:
    """Whether a process trains the run of a folder; False if the folder cannot be locked at all."""
    if not (folder / LOCK).exists():
        return False
    lock = run_lock(folder, 0)
    try:
        lock.acquire()
    except Timeout:
        return True
    except (OSError, NotImplementedError):
        return False
    lock.release()
    return False


def private_locks(folder: Path, mounts: str) -> str:
    """The mount of a folder if other machines do not see its locks, with the option that says so; else empty.

    Args:
        mounts: content of /proc/mounts. NFS with `nolock` or `local_lock`, and Lustre with `localflock` or without
            `flock`, keep locks on each machine.
    """
    rows = [line.split() for line in mounts.splitlines()]
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
