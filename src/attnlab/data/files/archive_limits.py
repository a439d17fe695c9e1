"""Limits on sizes inside an archive, which is never unpacked, and errors for archives that are damaged."""

import gzip
import io
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from lzma import LZMAError
from pathlib import Path
from typing import TYPE_CHECKING, Self

from attnlab.data.files.fetch import DataError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

LARGEST, LARGEST_WHOLE, LARGEST_NOTE = 16 * 2**30, 2**28, 2**20
"""bytes: limits of a file read in pieces, of one read whole, and of an extended header of a tar archive"""
# zipfile raises RuntimeError for a password, and its subclass NotImplementedError for an unknown compression
BROKEN = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, gzip.BadGzipFile, LZMAError, RuntimeError)
NOTES = (b"x", b"g", b"X", b"L", b"K")
"""types of extended headers, which describe the next member (pax and GNU)"""
REPLACE = "Put the official archive in its place."


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


class LimitedFile(io.RawIOBase):
    """A file inside an archive; reading raises DataErrors with its name, and stops after `LARGEST` bytes."""

    def __init__(self, file: io.BufferedIOBase, where: str) -> None:
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


def limited(file: io.BufferedIOBase, where: str, claimed: int = 0) -> io.BufferedReader:
    """A file inside an archive, buffered; refuses a size in bytes above `LARGEST` that the archive claims."""
    if claimed > LARGEST:
        raise DataError(f"{where} claims {claimed} bytes, above {LARGEST}. {REPLACE}")
    return io.BufferedReader(LimitedFile(file, where), 2**16)


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


def whole(file: io.BufferedIOBase, where: str) -> bytes:
    """The whole content of a file; raises DataError above `LARGEST_WHOLE` bytes (official files have up to 50 MB)."""
    content = file.read(LARGEST_WHOLE + 1)
    if len(content) > LARGEST_WHOLE:
        raise DataError(f"{where} has more than {LARGEST_WHOLE} bytes. {REPLACE}")
    return content
