"""Official data files: found in the data folder, else downloaded once and checked.

A file is searched in the data folder, then among earlier downloads in the cache folder. A download is written to
`<name>.part`, continued after an interruption (HTTP Range), checked against its sha256 and renamed, so that a file with
its final name is complete. Downloads go to the data folder, or to the cache where the data folder is read-only. Where
no sha256 is published, the sha256 of the first download is stored next to the file and checked from then on.
"""

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from attnlab.config.problem import UserError
from attnlab.data.files.file_lock import Timeout, held_lock
from attnlab.data.files.progress import say, track
from attnlab.data.files.regular_file import NotRegular, open_regular, read_regular

FULL = {errno.ENOSPC, errno.EDQUOT}
CLOSED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}


class DataError(UserError):
    """A data file is missing, cut short or changed, or a folder cannot be written; says what to do."""


@dataclass(frozen=True)
class Folders:
    """Folders of a task: official files (`data`), prepared data (`cache`, with `only_read` for downloads too)."""

    data: Path
    cache: Path
    only_read: bool = False


@dataclass(frozen=True, kw_only=True)
class OfficialFile:
    """A file that its authors publish; its path is below the data folder, with `/` between folders. None: unknown."""

    path: str
    url: str
    size: int | None = None
    sha256: str | None = None

    @property
    def size_note(self) -> str:
        """The size in brackets, after a blank; empty if unknown."""
        return f" ({self.size / 1e6:.1f} MB)" if self.size else ""


@contextmanager
def disk_errors(doing: str, folder: Path) -> Iterator[None]:
    """Turns errors of a full disk and of missing permissions into a DataError; `doing` is such as "writing ..."."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            reason, advice = "no space left on the disk", "Free some, or move the folder to a larger disk"
        elif error.errno in CLOSED:
            reason, advice = f"the folder cannot be written ({error.strerror})", "Choose another folder"
        else:
            raise
        options = "(environment variables ATTNLAB_DATA and ATTNLAB_CACHE, keys paths.data and paths.cache)"
        raise DataError(f"{doing} in {folder} failed: {reason}. {advice} {options}.") from error


@contextmanager
def exclusive(lock: Path, data_name: str) -> Iterator[None]:
    """Holds a lock file, with a message while another process holds it; a lock ends with its process."""
    advice = "set ATTNLAB_DATA and ATTNLAB_CACHE (paths.data, paths.cache) to another file system"
    try:
        holder = held_lock(lock, 0.5, advice)
    except Timeout:
        say(f"waiting for another process that prepares {data_name} ({lock})")
        holder = held_lock(lock, -1.0, advice)
    try:
        yield
    finally:
        holder.release()


def sha256_of(path: Path) -> str:
    """sha256 of a file, in 64 hex digits. Raises DataError: it is a folder, a pipe or a device, or cannot be read."""
    with plain_file(path), open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def plain_file(path: Path | str) -> Iterator[None]:
    """Turns the errors of a file that is opened by `open_regular`, and read, into a DataError."""
    try:
        yield
    except NotRegular as error:
        raise DataError(f"{path} {error.strerror}. Put the official file in its place.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}).") from error


def fetch(file: OfficialFile, folders: Folders) -> Path:
    """The path of an official file, downloaded if it is missing; safe for concurrent processes.

    Raises:
        DataError: the file has another checksum (it is kept), the download failed or was wrong (only the download is
            removed), or no folder can be written.
    """
    paths = [folders.data / file.path, folders.cache / "downloads" / file.path]
    for path in paths:
        if _stands(path):
            _check(path, file)
            return path
    target = paths[1] if folders.only_read or not _writable(paths[0].parent) else paths[0]
    with disk_errors(f"downloading {target.name}", target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(target.with_name(target.name + ".lock"), target.name):
            if not target.exists():
                _download(file, target, paths[0])
    _check(target, file)
    return target


def _stands(path: Path) -> bool:
    """Whether anything stands at a path, a link to nothing too."""
    with plain_file(path):
        return path.is_symlink() or path.exists()


def _recorded(record: Path) -> str | None:
    """The checksum of a first download in the file beside it; None without one."""
    if not _stands(record):
        return None
    with plain_file(record):
        words = read_regular(record).split()
    if not words:
        raise DataError(f"{record} is empty: remove it, or put the sha256 of the official file into it.")
    return words[0].decode(errors="replace")


def _check(path: Path, file: OfficialFile) -> None:
    expected = file.sha256 or _recorded(path.with_name(path.name + ".sha256"))
    if expected is None or expected == (actual := sha256_of(path)):
        return
    size = f"{path.stat().st_size} bytes" + (f" where {file.size} are expected" if file.size else "")
    raise DataError(
        f"{path} is not the official file: expected sha256 {expected}, found {actual} ({size}). "
        f"It was left as it is: move it away and repeat the command, which then downloads it from {file.url}."
    )


def _writable(folder: Path) -> bool:
    while not folder.exists():
        folder = folder.parent
    return os.access(folder, os.W_OK)


def _download(file: OfficialFile, target: Path, by_hand: Path) -> None:
    import requests

    part = target.with_name(target.name + ".part")
    if file.sha256 is None:
        # without a checksum, the rest may belong to another edition of the file unnoticed
        part.unlink(missing_ok=True)
    try:
        _receive(file, part)
    except requests.RequestException as error:
        size = f"{file.size / 1e6:.1f} MB" if file.size else "of unknown size"
        # an HTTP status is short; messages about connections nest whole tracebacks, so the name of the error is enough
        reason = f"HTTP {error.response.status_code}" if error.response is not None else type(error).__name__
        raise DataError(
            f"{target.name} is missing and could not be downloaded from {file.url} ({reason}). "
            f"Get that file ({size}) on a machine with network and put it at {by_hand}."
        ) from error
    actual = sha256_of(part)
    if file.sha256 not in (None, actual):
        part.unlink()
        raise DataError(
            f"The download of {file.url} was wrong and has been removed: expected sha256 {file.sha256}, found "
            f"{actual}. Repeat the command, or put the official file at {by_hand}."
        )
    if file.sha256 is None:
        target.with_name(target.name + ".sha256").write_text(f"{actual}  {target.name}\n")
        say(f"{target}: no published checksum; sha256 {actual} is recorded beside it")
    with part.open("rb") as whole:
        os.fsync(whole.fileno())
    os.replace(part, target)


def _receive(file: OfficialFile, part: Path) -> None:
    """Downloads into `part`, with further attempts after a lost connection as long as each brings some bytes."""
    import requests

    while True:
        before = _size(part)
        try:
            return _continue(file, part)
        except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError):
            if _size(part) <= before:
                raise


def _continue(file: OfficialFile, part: Path) -> None:
    """One request for the rest of `part`."""
    import requests

    have = _size(part)
    if file.size is not None and have == file.size:
        return
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with requests.get(file.url, headers=headers, stream=True, timeout=(10, 60)) as reply:
        if have and reply.status_code == requests.codes.requested_range_not_satisfiable:
            part.unlink()
            return _continue(file, part)
        reply.raise_for_status()
        # a server without support for Range answers with the whole file
        mode = "ab" if reply.status_code == requests.codes.partial_content else "wb"
        rest = int(reply.headers["Content-Length"]) if "Content-Length" in reply.headers else None
        with part.open(mode) as out:
            for chunk in track(reply.iter_content(2**16), f"downloading {Path(file.path).name}", rest, len):
                out.write(chunk)
    if file.size is not None and _size(part) < file.size:
        raise requests.ConnectionError(f"the connection ended after {_size(part)} of {file.size} bytes")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
