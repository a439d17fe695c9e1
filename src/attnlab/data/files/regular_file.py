"""Opens files of folders that may be a stranger's: a pipe or a device there would block the reader or never end."""

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

LARGEST = 2**26
"""maximal size in bytes of records, tables, texts and pictures"""


class NotRegular(OSError):
    """A file that is not opened; `strerror` is such as "is a folder"."""


def open_regular(path: Path, limit: int | None = None) -> BufferedReader:
    """Open a regular file, or a link to one, for reading.

    Raises:
        NotRegular: it is a folder, a pipe, a device, or has more than `limit` bytes. OSError: it cannot be read.
    """
    # without O_NONBLOCK, a pipe blocks until somebody writes into it
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    about = os.fstat(handle)
    problem = ""
    if not stat.S_ISREG(about.st_mode):
        problem = f"is {'a folder' if stat.S_ISDIR(about.st_mode) else 'no plain file'}"
    elif limit is not None and about.st_size > limit:
        problem = f"has {about.st_size:,} bytes, far more than a run writes"
    if problem:
        os.close(handle)
        raise NotRegular(errno.EINVAL, problem, str(path))
    return open(handle, "rb")


def read_regular(path: Path, limit: int | None = None) -> bytes:
    """The bytes of a regular file; as `open_regular`."""
    with open_regular(path, limit) as file:
        return file.read()
