"""Reads official files from a folder, or from an archive without unpacking it.

Refuses archives that are cut short, and files that claim or expand to more than `LARGEST` bytes.
"""

import gzip
import os
import re
import tarfile
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase, BufferedReader, RawIOBase
from lzma import LZMAError
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

from attnlab.data.files.content_hashes import content_hash
from attnlab.data.files.fetch import DataError, Folders, OfficialFile, fetch

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

LARGEST, LARGEST_WHOLE, LARGEST_NOTE = 16 * 2**30, 2**28, 2**20
"""bytes: limits of a file read in pieces, of one read whole, and of an extended header of a tar archive"""
# zipfile raises RuntimeError for a password, and its subclass NotImplementedError for an unknown compression
BROKEN = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, gzip.BadGzipFile, LZMAError, RuntimeError)
NOTES = (b"x", b"g", b"X", b"L", b"K")
"""types of extended headers, which describe the next member (pax and GNU)"""
REPLACE = "Put the official archive in its place."
LONGEST_LINE = 2**24
"""bytes; the longest official lines, with two papers of the AAN each, have about 100,000"""

Entry = tuple[str, str, BufferedIOBase]
"""name below the top folder, location for messages, the open file"""


@contextmanager
def reading(where: Path | str) -> Iterator[None]:
    """Turns errors of archive readers, and of files that cannot be read, into a DataError."""
    try:
        yield
    except BROKEN as error:
        # tarfile lists its other attempts on further lines
        reason = str(error).partition("\n")[0].rstrip(":") or type(error).__name__
        problem = f"{where} is cut short, damaged or no archive ({reason})"
        raise DataError(f"{problem}. Put a whole copy in its place.") from error
    except OSError as error:
        raise DataError(f"{where} cannot be read ({error.strerror or error}).") from error


class LimitedFile(RawIOBase):
    """A file of a folder or an archive; reading raises DataErrors with its name, and stops after `LARGEST` bytes."""

    def __init__(self, file: BufferedIOBase, where: str) -> None:
        self.file, self.where, self.left = file, where, LARGEST

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        with reading(self.where):
            count = self.file.readinto(buffer)
        self.left -= count
        if self.left < 0:
            raise DataError(f"{self.where} expands to more than {LARGEST} bytes. {REPLACE}")
        return count


def limited(file: BufferedIOBase, where: str, claimed: int = 0) -> BufferedReader:
    """A file of a folder or an archive, buffered; refuses a size in bytes above `LARGEST` that the archive claims."""
    if claimed > LARGEST:
        raise DataError(f"{where} claims {claimed} bytes, above {LARGEST}. {REPLACE}")
    return BufferedReader(LimitedFile(file, where), 2**16)


class Header(tarfile.TarInfo):
    """A member's header. tarfile takes every broken one for the end of the archive; here only a block of zeros is."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """The header in a block; raises tarfile.ReadError for damage."""
        try:
            header = super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if len(buf) == tarfile.BLOCKSIZE and not any(buf):
                raise
            raise tarfile.ReadError(str(error)) from error
        if header.type in NOTES and header.size > LARGEST_NOTE:
            raise tarfile.ReadError(f"a note of {header.size} bytes on a member")
        return header

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        """The next header, with its notes; raises tarfile.ReadError for notes that tarfile cannot read."""
        try:
            header = super().fromtarfile(archive)
        except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError) as error:
            raise tarfile.ReadError(f"a header that cannot be read: {type(error).__name__}") from error
        if "\0" in header.name:
            raise tarfile.ReadError(f"the name {header.name!a}")
        return header


def members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The members of an archive opened with `tarinfo=Header`, in the order stored; raises `BROKEN` for damage."""
    last = -1
    while (member := tar.next()) is not None:
        # a negative size would lead back to an earlier member, in an endless loop
        if member.size < 0 or member.offset <= last:
            raise tarfile.ReadError(f"{member.name!r} claims {member.size} bytes")
        last = member.offset
        yield member
        # tarfile would keep them, and the LRA release has millions
        tar.members.clear()  # type: ignore[attr-defined]  # an attribute that typeshed leaves out
    # reads the padding, so that the checksum at the end of a compressed archive is checked
    while tar.fileobj.read(2**20):
        pass


def whole(file: BufferedIOBase, where: str) -> bytes:
    """The whole content of a file; raises DataError above `LARGEST_WHOLE` bytes (official files have up to 50 MB)."""
    content = file.read(LARGEST_WHOLE + 1)
    if len(content) > LARGEST_WHOLE:
        raise DataError(f"{where} has more than {LARGEST_WHOLE} bytes. {REPLACE}")
    return content


class FileTree(ABC):
    """Official files below one top folder of any name, in a folder or an archive."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def walk(self, wanted: Callable[[str], bool]) -> Iterator[Entry]:
        """The files whose name (below the top folder, `/` between folders) is wanted; read each before the next one.

        The order is by name in a folder, and as stored in an archive.

        Raises:
            DataError: no archive, an archive cut short, a link or an absurd size under a wanted name, a file or folder
                that cannot be read; also raised while a file is read.
        """

    def identity(self, wanted: Callable[[str], bool], cache: Path) -> str:
        """Hash of the names and contents of the wanted files, or the sha256 of the whole archive; for cache keys.

        Args:
            cache: folder in which the hashes of large files are remembered.
        """
        return content_hash([("", self.path)], cache, f"checking {self.path.name}")

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """Contents of the named files that exist; a DataError as in `walk`, or above `LARGEST_WHOLE` bytes."""
        contents: dict[str, bytes] = {}
        for name, where, file in self.walk(lambda name: name in names):
            contents[name] = whole(file, where)
            if len(contents) == len(set(names)):
                break
        return contents


class Folder(FileTree):
    """A folder; `name.gz` is decompressed and read as `name` where `name` is missing."""

    def walk(self, wanted: Callable[[str], bool]) -> Iterator[Entry]:
        for name, path in self._files(wanted):
            # opening a pipe would block
            if not os.path.isfile(path):
                raise DataError(f"{path} is no file. Put the official one in its place.")
            packed = path.endswith(".gz") and not name.endswith(".gz")
            with reading(path):
                opened: BufferedIOBase = (gzip.open if packed else open)(path, "rb")
            with opened:
                yield name, path, limited(opened, path)

    def identity(self, wanted: Callable[[str], bool], cache: Path) -> str:
        return content_hash(list(self._files(wanted)), cache, f"checking {self.path.name}")

    def _files(self, wanted: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
        """Name and path of each wanted file, or of a folder in its place; strings, as there may be 200,000 of them."""
        for folder, folders, files in os.walk(self.path, onerror=_refuse):
            folders.sort()
            above = "" if Path(folder) == self.path else Path(folder).relative_to(self.path).as_posix() + "/"
            plain, found = set(files), False
            for file in sorted(files):
                packed = file.endswith(".gz") and file[:-3] not in plain and not wanted(above + file)
                name = above + (file[:-3] if packed else file)
                if wanted(name):
                    found = True
                    yield name, os.path.join(folder, file)
            if above and not found and not folders and wanted(above[:-1]):
                yield above[:-1], folder


def _refuse(error: OSError) -> None:
    raise DataError(f"{error.filename} cannot be read ({error.strerror}).") from error


def _below_top(stored: str) -> str:
    """A member's name without the top folder; empty for a member outside of one."""
    return stored.removeprefix("./").partition("/")[2]


class Tar(FileTree):
    """A tar archive, compressed or not; the top folder is left out of names."""

    def walk(self, wanted: Callable[[str], bool]) -> Iterator[Entry]:
        with reading(self.path), tarfile.open(self.path, tarinfo=Header) as tar:
            for member in members(tar):
                name, where = _below_top(member.name), f"{self.path}: {member.name}"
                if not name or member.isdir() or not wanted(name):
                    continue
                # tarfile reads nothing from devices, follows links, and may loop forever on a sparse file
                if not member.isreg() or member.issparse():
                    raise DataError(f"{where} is a link, a device or a sparse file, not a plain one. {REPLACE}")
                # typeshed says less: a plain file has a reader
                yield name, where, limited(cast(BufferedIOBase, tar.extractfile(member)), where, member.size)


class Zip(FileTree):
    """A zip archive; the top folder is left out of names."""

    def walk(self, wanted: Callable[[str], bool]) -> Iterator[Entry]:
        with reading(self.path), zipfile.ZipFile(self.path) as archive:
            for member in archive.infolist():
                name, where = _below_top(member.filename), f"{self.path}: {member.filename}"
                if not name or member.is_dir() or not wanted(name):
                    continue
                with archive.open(member) as opened:
                    # typeshed says less: a ZipExtFile
                    yield name, where, limited(cast(BufferedIOBase, opened), where, member.file_size)


def find_trees(data: Path, paths: Sequence[str]) -> Iterator[FileTree]:
    """Those of these paths below a folder that are an archive, or a folder with files; a DataError: one is neither."""
    for path in (data / path for path in paths):
        with reading(path):
            is_folder, is_file = path.is_dir(), path.is_file()
        if is_folder:
            walk = os.walk(path, onerror=_refuse)
            # a failed download may have left some
            if any(not file.endswith((".lock", ".part")) for _, _, files in walk for file in files):
                yield Folder(path)
        elif is_file:
            yield open_archive(path)
        elif path.is_symlink() or path.exists():
            raise DataError(f"{path} is no file and no folder. Put the official one in its place, or remove it.")


def open_archive(path: Path) -> FileTree:
    """Opens a tar or zip archive, recognised by its content (LRA's `.gz` is a tar archive)."""
    return Zip(path) if zipfile.is_zipfile(path) else Tar(path)


@dataclass(frozen=True, kw_only=True)
class DataSource:
    """Where the official files of a task are found.

    title:   names the files in messages.
    paths:   folders or archives below the data folder; the first that exists is read, and messages name the first one
             as the destination.
    archive: the file that is downloaded where none of them exists; None: no automatic download.
    offers:  addresses for a download by hand, with sizes.
    """

    title: str
    paths: tuple[str, ...]
    archive: OfficialFile | None = None
    offers: tuple[str, ...] = ()

    def find(self, folders: Folders) -> FileTree | None:
        """The files, if they are in the data folder or were downloaded earlier; None otherwise."""
        return next(self.trees(folders), None)

    def trees(self, folders: Folders) -> Iterator[FileTree]:
        """All copies of the files, in the order of the search."""
        yield from find_trees(folders.data, self.paths)
        if self.archive is not None:
            yield from find_trees(folders.cache / "downloads", (self.archive.path,))

    def open(self, folders: Folders) -> FileTree:
        """The files, downloaded if they are missing; a DataError names files, addresses, sizes and destination."""
        if (tree := self.find(folders)) is not None:
            return tree
        if self.archive is None:
            raise DataError(self.missing(folders))
        return open_archive(fetch(self.archive, folders))

    def ways(self, folders: Folders) -> list[tuple[str, Path]]:
        """Pairs of an address and the destination of its files; the automatic download comes first."""
        ways = [(offer, folders.data / self.paths[0]) for offer in self.offers]
        if self.archive is not None:
            ways.insert(0, (f"{self.archive.url}{self.archive.size_note}", folders.data / self.archive.path))
        return ways

    def missing(self, folders: Folders) -> str:
        """Message about missing files: their name, addresses and destinations."""
        ways = "; or ".join(f"{offer}, to be put at {path}" for offer, path in self.ways(folders))
        return (
            f"{self.title}: missing; {folders.data} has none of {', '.join(self.paths)}. Where to get it: {ways}. "
            "Another data folder: paths.data=... or ATTNLAB_DATA."
        )


def text_lines(file: BufferedIOBase, where: str, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Line numbers from 1, and lines without their ends; a DataError names file and line of bytes that are no text."""
    for number, raw in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), start=1):
        if len(raw) == LONGEST_LINE:
            raise bad_line(where, number, f"a line of {LONGEST_LINE} bytes or more")
        try:
            yield number, raw.decode(encoding).rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise bad_line(where, number, f"not {encoding}: {error.reason} at byte {error.start}") from None


def bad_line(where: str, number: int, problem: str) -> DataError:
    """Error for a line that cannot be parsed."""
    return DataError(f"{where}, line {number}: {problem}. It is not the official file: put that in its place.")


def natural(name: str) -> list[int | str]:
    """Sort key that puts `sample_10` after `sample_9`."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]
