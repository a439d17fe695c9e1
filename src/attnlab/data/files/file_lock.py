"""A lock file that one process at a time holds, by `flock`; it ends with its process, and the file stays."""

import errno
from pathlib import Path

from filelock import FileLock, Timeout

from attnlab.config.problem import UserError

__all__ = ["NoLocks", "Timeout", "held_lock"]

_NONE = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
"""errors of a file system without locks, or without its lock service"""


class NoLocks(UserError):
    """The file system has no locks, or something else lies in the place of the file."""


def held_lock(path: Path, seconds: float, advice: str) -> FileLock:
    """The lock of a file, held by this process until it is released.

    Args:
        seconds: to wait while another process holds it; negative: without end.
        advice: which setting names another file system.

    Raises:
        Timeout: another process holds it.
        NoLocks: nobody can hold it.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        kind = "a link" if path.is_symlink() else "a folder" if path.is_dir() else "no plain file"
        raise NoLocks(f"{path} is {kind}, where a process locks a file; remove it")
    # not by the mere existence of a file, which would outlive a killed process
    lock = FileLock(path, timeout=seconds, fallback_to_soft=False)
    try:
        lock.acquire()
    except OSError as error:
        # a Timeout has no errno
        if error.errno not in _NONE:
            raise
        raise NoLocks(
            f"the file system of {path.parent} has no locks (flock), which keep two processes from writing the same "
            f"files; {advice}"
        ) from None
    return lock
