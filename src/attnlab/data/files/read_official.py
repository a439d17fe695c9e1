"""Reads official files into memory, each from the first folder or archive that has it, or from a download."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attnlab.data.files.archive_safety import whole
from attnlab.data.files.fetch import DataError, Folders, OfficialFile, fetch
from attnlab.data.files.file_tree import find_tree


@dataclass(frozen=True)
class FileContent:
    """The bytes of a file, their location for messages, and the expected official file."""

    where: str
    data: bytes
    official: OfficialFile

    @property
    def sha256(self) -> str:
        """Checksum of the bytes, in 64 hex digits."""
        return hashlib.sha256(self.data).hexdigest()

    def require_official(self) -> None:
        """Refuses other bytes than the official ones, where their checksum is known.

        Raises:
            DataError: the checksum differs.
        """
        expected = self.official.sha256
        if expected not in (None, self.sha256):
            raise DataError(
                f"{self.where} is not the official file: expected sha256 {expected}, found {self.sha256} ("
                f"{len(self.data)} bytes where {self.official.size} are expected). Put the official file in its place "
                f"({self.official.url})."
            )


def read_contents(
    files: Mapping[str, OfficialFile], paths: Sequence[str], folders: Folders, above: str = ""
) -> dict[str, FileContent]:
    """The contents of files by name.

    Args:
        files: by their names below the top folder.
        paths: folders and archives below the data folder, in the order of the search.
        above: folder below the top folder that may contain the files.

    Raises:
        DataError: a file is missing and cannot be downloaded.
    """
    found: dict[str, FileContent] = {}
    for path in paths:
        wanted = {stored: name for name in files if name not in found for stored in (name, f"{above}/{name}")}
        tree = find_tree(folders.data, [path])
        for stored, where, file in tree.walk(wanted.__contains__) if tree and wanted else ():
            name = wanted[stored]
            found[name] = FileContent(where, whole(file, where), files[name])
    for name, official in files.items():
        if name not in found:
            path = fetch(official, folders.data, folders.cache)
            found[name] = FileContent(str(path), path.read_bytes(), official)
    return found
