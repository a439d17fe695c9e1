"""Reads official files where they lie: in a folder or in an archive, which is never unpacked.

Refused are files that claim or expand to more than `archive_safety.LARGEST` bytes, and archives that are cut short.
"""

import gzip
import os
import re
import tarfile
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from attnlab.data.files.archive_safety import REPLACE, Header, limited, members, reading, whole
from attnlab.data.files.fetch import DataError, Folders, OfficialFile, fetch

LONGEST_LINE = 2**24
"""bytes; the longest official ones, of two papers of the AAN, have some 100,000"""

Entry = tuple[str, str, BinaryIO]
"""name below the top, where it lies in words (for messages), the open file"""


class Tree(ABC):
    """Official files below one top folder, whatever that is called.

    Args:
        path: the folder or archive.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def walk(self, wanted: Callable[[str], bool]) -> Iterator[Entry]:
        """The files whose name (below the top folder, `/` between folders) is wanted, each to be read before the next.

        Order: by name in a folder, as stored in an archive.

        Raises:
            DataError: an archive that is none, is cut short, or has a link or an absurd size under a wanted name; also
                while a file is read. A file or folder that cannot be read.
        """

    def identity(self, wanted: Callable[[str], bool]) -> list[list[str | int]]:
        """Names, sizes and times of the last change (ns) of the wanted files, of the archive where it is one: another
        value where what they hold may have changed, for the key of a cache.
        """
        with reading(self.path):
            found = self.path.stat()
        return [[self.path.name, found.st_size, found.st_mtime_ns]]

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """Contents of those of the named files that are there.

        Raises:
            DataError: as in `walk`; a file of more than `LARGEST_WHOLE` bytes.
        """
        found: dict[str, bytes] = {}
        for name, where, file in self.walk(lambda name: name in names):
            found[name] = whole(file, where)
            if len(found) == len(set(names)):
                break
        return found


class Folder(Tree):
    """A folder; a file that is there only with `.gz` behind its name is read through gzip under its plain name."""

    def walk(self, wanted: Callable[[str], bool]) -> Iterator[Entry]:
        for name, path in self._files(wanted):
            # opening a pipe would wait for ever
            if not os.path.isfile(path):
                raise DataError(f"{path} is no file. Put the official one in its place.")
            packed = path.endswith(".gz") and not name.endswith(".gz")
            with reading(path):
                opened = (gzip.open if packed else open)(path, "rb")
            with opened:
                yield name, path, limited(opened, path) if packed else opened

    def identity(self, wanted: Callable[[str], bool]) -> list[list[str | int]]:
        found = []
        for name, path in self._files(wanted):
            with reading(path):
                status = os.stat(path)
            found.append([name, status.st_size, status.st_mtime_ns])
        return found

    def _files(self, wanted: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
        """Names of the wanted files, and where each lies; no `Path`s, as there may be 200,000 of them."""
        for folder, folders, files in os.walk(self.path, onerror=_refuse):
            folders.sort()
            above = "" if Path(folder) == self.path else Path(folder).relative_to(self.path).as_posix() + "/"
            plain = set(files)
            for file in sorted(files):
                if wanted(above + file):
                    yield above + file, os.path.join(folder, file)
                elif file.endswith(".gz") and file[:-3] not in plain and wanted(above + file[:-3]):
                    yield above + file[:-3], os.path.join(folder, file)


def _refuse(error: OSError) -> None:
    raise DataError(f"{error.filename} cannot be read ({error.strerror}).") from error


def _below_top(stored: str) -> str:
    """A member's name without the top folder; empty where it lies in none."""
    return stored.removeprefix("./").partition("/")[2]


class Tar(Tree):
    """A tar archive, compressed or not; the top folder is left out of names."""

    def walk(self, wanted: Callable[[str], bool]) -> Iterator[Entry]:
        with reading(self.path), tarfile.open(self.path, tarinfo=Header) as tar:
            for member in members(tar):
                name, where = _below_top(member.name), f"{self.path}: {member.name}"
                if not name or member.isdir() or not wanted(name):
                    continue
                # tarfile reads nothing of devices, looks for links elsewhere, and can turn in circles in sparse files
                if not member.isreg() or member.issparse():
                    raise DataError(f"{where} is a link, a device or a sparse file, not a plain one. {REPLACE}")
                yield name, where, limited(tar.extractfile(member), where, member.size)


class Zip(Tree):
    """A zip archive; the top folder is left out of names."""

    def walk(self, wanted: Callable[[str], bool]) -> Iterator[Entry]:
        with reading(self.path), zipfile.ZipFile(self.path) as archive:
            for member in archive.infolist():
                name, where = _below_top(member.filename), f"{self.path}: {member.filename}"
                if not name or member.is_dir() or not wanted(name):
                    continue
                with archive.open(member) as opened:
                    yield name, where, limited(opened, where, member.file_size)


def find_tree(data: Path, places: Sequence[str]) -> Tree | None:
    """The first of these places below the data folder that is there: a folder with files, a tar or a zip archive."""
    for place in places:
        path = data / place
        if path.is_dir() and _holds_files(path):
            return Folder(path)
        if path.is_file():
            return open_archive(path)
    return None


def _holds_files(folder: Path) -> bool:
    """Whether there is more in a folder than a download that failed leaves."""
    found = os.walk(folder, onerror=_refuse)
    return any(not file.endswith((".lock", ".part")) for _, _, files in found for file in files)


def open_archive(path: Path) -> Tree:
    """A tar or zip archive by what it holds, not by its name (LRA's `.gz` is a tar)."""
    return Zip(path) if zipfile.is_zipfile(path) else Tar(path)


@dataclass(frozen=True, kw_only=True)
class Source:
    """Official files of a task.

    what:     names them in messages.
    places:   folders or archives below the data folder, the first that is there is read; the first is also where a user
              is told to put them.
    archive:  the one file to download where none is there, or None where that cannot be done for the user.
    offers:   where to get them by hand: addresses, with sizes.
    """

    what: str
    places: tuple[str, ...]
    archive: OfficialFile | None = None
    offers: tuple[str, ...] = ()

    def find(self, folders: Folders) -> Tree | None:
        """The files, if they are there or were downloaded earlier."""
        tree = find_tree(folders.data, self.places)
        if tree is None and self.archive is not None:
            tree = find_tree(folders.cache / "downloads", (self.archive.path,))
        return tree

    def open(self, folders: Folders) -> Tree:
        """The files, downloaded if they are nowhere.

        Raises:
            DataError: they are not there and cannot be downloaded: what, from where, how large, where to put them.
        """
        tree = self.find(folders)
        if tree is not None:
            return tree
        if self.archive is None:
            raise DataError(self.missing(folders))
        return open_archive(fetch(self.archive, folders.data, folders.cache))

    def ways(self, folders: Folders) -> list[tuple[str, Path]]:
        """From where to get the files, and where to put what comes from there; a download done for the user first."""
        ways = [(offer, folders.data / self.places[0]) for offer in self.offers]
        if self.archive is not None:
            size = f" ({self.archive.size / 1e6:.1f} MB)" if self.archive.size else ""
            ways.insert(0, (f"{self.archive.url}{size}", folders.data / self.archive.path))
        return ways

    def missing(self, folders: Folders) -> str:
        """What is missing, from where to get it and where to put it."""
        ways = "; or ".join(f"{offer}, to be put at {place}" for offer, place in self.ways(folders))
        return (
            f"{self.what}: missing; {folders.data} has none of {', '.join(self.places)}. Where to get it: {ways}. "
            "Another data folder: paths.data=... or ATTNLAB_DATA."
        )


def text_lines(file: BinaryIO, where: str, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Line numbers from 1, and lines without their ends (LF or CR LF).

    Raises:
        DataError: bytes that are no text, named with file and line.
    """
    for number, raw in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), start=1):
        if len(raw) == LONGEST_LINE:
            raise bad_line(where, number, f"a line of {LONGEST_LINE} bytes or more")
        try:
            yield number, raw.decode(encoding).rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise bad_line(where, number, f"not {encoding}: {error.reason} at byte {error.start}") from None


def bad_line(where: str, number: int, problem: str) -> DataError:
    """The error for a line that does not parse."""
    advice = "It is not the official file: put that in its place"
    return DataError(f"{where}, line {number}: {problem}. {advice}.")


def natural(name: str) -> list[int | str]:
    """Sort key by which `sample_10` comes after `sample_9`."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]
