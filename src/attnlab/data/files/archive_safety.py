"""Limits on sizes inside an archive, and errors for archives that are cut short or damaged.

Archives are read, never unpacked: names of members are compared and nothing else, so they need no check.
"""

import gzip
import io
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Self, cast

from attnlab.data.files.fetch import DataError

LARGEST = 16 * 2**30
"""bytes of the largest file that is read piece by piece; the largest of the LRA release may have several GB"""
LARGEST_WHOLE = 2**28
"""bytes of the largest file that is taken into memory at once"""
LARGEST_NOTE = 2**20
"""bytes of the largest note of a tar archive on its next member, a long name for instance; tarfile reads it whole"""
# zipfile says RuntimeError of a password and NotImplementedError, one of these, of a compression it does not know
BROKEN: tuple[type[Exception], ...] = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, gzip.BadGzipFile)
BROKEN += (RuntimeError,)
with suppress(ImportError):
    # a Python may be built without it
    from lzma import LZMAError

    BROKEN += (LZMAError,)
NOTES = (b"x", b"g", b"X", b"L", b"K")
"""types of headers that only tell of the next member (pax and GNU)"""
REPLACE = "Put the official archive in its place."


@contextmanager
def reading(where: Path | str) -> Iterator[None]:
    """Turns what the readers of archives say of broken ones, and files that cannot be read, into a DataError."""
    try:
        yield
    except BROKEN as error:
        # tarfile lists on further lines what else it tried
        reason = str(error).partition("\n")[0].rstrip(":") or type(error).__name__
        what = f"{where} is cut short, damaged or no archive ({reason})"
        raise DataError(f"{what}. Put a whole copy in its place.") from error
    except OSError as error:
        raise DataError(f"{where} cannot be read ({error.strerror or error}).") from error


class LimitedFile(io.RawIOBase):
    """A file inside another: reading it raises DataErrors that name it, and brings at most `LARGEST` bytes."""

    def __init__(self, file: BinaryIO, where: str) -> None:
        super().__init__()
        self.file, self.where, self.left = file, where, LARGEST

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        with reading(self.where):
            count = self.file.readinto(buffer)
        self.left -= count
        if self.left < 0:
            raise DataError(f"{self.where} expands to more than {LARGEST} bytes. {REPLACE}")
        return count


def limited(file: BinaryIO, where: str, claimed: int = 0) -> BinaryIO:
    """`file`, read through a `LimitedFile`.

    Args:
        where: names it in messages.
        claimed: bytes that it has according to the archive.

    Raises:
        DataError: it claims more than `LARGEST` bytes.
    """
    if claimed > LARGEST:
        raise DataError(f"{where} claims {claimed} bytes, above {LARGEST}. {REPLACE}")
    return cast(BinaryIO, io.BufferedReader(LimitedFile(file, where), 2**16))


class Header(tarfile.TarInfo):
    """A member's header. tarfile takes any broken one behind the first for the end of the archive; only the mark of the
    end, a block of zeros, is one here.
    """

    @classmethod
    def frombuf(cls, buf: bytes, encoding: str, errors: str) -> Self:
        """The header in a block; Raises tarfile.ReadError where tarfile itself would call it the end."""
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
    """The members of an archive opened with `tarinfo=Header`, in the order stored, each forgotten after its turn.

    Raises:
        tarfile.TarError, EOFError, OSError or what the decompressor raises: the archive is cut short or damaged.
    """
    last = -1
    while (member := tar.next()) is not None:
        # a size below 0 would lead back to an earlier member, for ever
        if member.size < 0 or member.offset <= last:
            raise tarfile.ReadError(f"{member.name!r} claims {member.size} bytes")
        last = member.offset
        yield member
        # the LRA release has millions of them
        tar.members.clear()
    # padding; behind it lies the checksum of a compressed archive, which is checked when it is reached
    while tar.fileobj.read(2**20):
        pass


def whole(file: BinaryIO, where: str) -> bytes:
    """All of a file of at most `LARGEST_WHOLE` bytes.

    Raises:
        DataError: it has more; the largest official file that is read at once has 50 MB.
    """
    content = file.read(LARGEST_WHOLE + 1)
    if len(content) > LARGEST_WHOLE:
        raise DataError(f"{where} has more than {LARGEST_WHOLE} bytes. Put the official file in its place.")
    return content
