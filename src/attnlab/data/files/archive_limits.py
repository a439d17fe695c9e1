"""Limits on sizes inside an archive, and errors for archives that are cut short or damaged.

Archives are never unpacked, so names of members need no check: they are only compared.
"""

import gzip
import io
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from attnlab.data.files.fetch import DataError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

LARGEST = 16 * 2**30
"""bytes: limit for a file that is read in pieces; the largest file of the LRA release may have several GB"""
LARGEST_WHOLE = 2**28
"""bytes: limit for a file that is read into memory whole"""
LARGEST_NOTE = 2**20
"""bytes: limit for an extended header of a tar archive (a long name, for instance), which tarfile reads whole"""
# zipfile raises RuntimeError for a password, and its subclass NotImplementedError for an unknown compression
BROKEN: tuple[type[Exception], ...] = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, gzip.BadGzipFile)
BROKEN += (RuntimeError,)
with suppress(ImportError):
    # Python may be built without lzma
    from lzma import LZMAError

    BROKEN += (LZMAError,)
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
        what = f"{where} is cut short, damaged or no archive ({reason})"
        raise DataError(f"{what}. Put a whole copy in its place.") from error
    except OSError as error:
        raise DataError(f"{where} cannot be read ({error.strerror or error}).") from error


class LimitedFile(io.RawIOBase):
    """A file inside an archive; reading raises DataErrors with its name, and stops after `LARGEST` bytes."""

    def __init__(self, file: io.BufferedIOBase, where: str) -> None:
        super().__init__()
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
    """Wraps a file in a buffered `LimitedFile`.

    Args:
        where: names the file in messages.
        claimed: size in bytes according to the archive.

    Raises:
        DataError: the claimed size is above `LARGEST`.
    """
    if claimed > LARGEST:
        raise DataError(f"{where} claims {claimed} bytes, above {LARGEST}. {REPLACE}")
    return io.BufferedReader(LimitedFile(file, where), 2**16)


class Header(tarfile.TarInfo):
    """A member's header that recognises damage.

    tarfile takes every broken header after the first one for the end of the archive; here only a block of zeros is.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """The header in a block; raises tarfile.ReadError where tarfile itself would see the end of the archive."""
        end = len(buf) == tarfile.BLOCKSIZE and not any(buf)
        try:
            header = super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if end:
                raise
            raise tarfile.ReadError(str(error)) from error
        if header.type in NOTES and header.size > LARGEST_NOTE:
            raise tarfile.ReadError(f"a note of {header.size} bytes on a member")
        return header


def members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The members of an archive opened with `tarinfo=Header`, in the order stored; tarfile keeps none of them.

    Raises:
        tarfile.TarError, EOFError, OSError or what the decompressor raises: the archive is cut short or damaged.
    """
    last = -1
    while (member := tar.next()) is not None:
        # a negative size would lead back to an earlier member, in an endless loop
        if member.size < 0 or member.offset <= last:
            raise tarfile.ReadError(f"{member.name!r} claims {member.size} bytes")
        last = member.offset
        yield member
        # the LRA release has millions of members
        tar.members.clear()  # type: ignore[attr-defined]  # an attribute that typeshed leaves out
    # reads the padding, so that the checksum at the end of a compressed archive is checked
    while tar.fileobj.read(2**20):
        pass


def whole(file: io.BufferedIOBase, where: str) -> bytes:
    """The whole content of a file of at most `LARGEST_WHOLE` bytes.

    Raises:
        DataError: the file is larger; the largest official file read this way has 50 MB.
    """
    content = file.read(LARGEST_WHOLE + 1)
    if len(content) > LARGEST_WHOLE:
        raise DataError(f"{where} has more than {LARGEST_WHOLE} bytes. Put the official file in its place.")
    return content
