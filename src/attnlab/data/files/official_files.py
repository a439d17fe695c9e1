"""Tables of official files, in `official_files.yaml` beside the code of a task, and files that are read into memory."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

from attnlab.config.plain_yaml import table_beside
from attnlab.data.files.fetch import DataError, Folders, OfficialFile, fetch
from attnlab.data.files.folder_or_archive import DataSource, reading, whole
from attnlab.data.files.regular_file import read_regular


@dataclass(frozen=True)
class FileContent:
    """The bytes of a file, their location for messages, and the expected official file."""

    where: str
    data: bytes
    official: OfficialFile

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def is_official(self) -> bool:
        """Whether these are the official bytes; false too where their checksum is not known."""
        return self.official.sha256 == self.sha256

    def require_official(self) -> None:
        """Refuses other bytes than the official ones with a DataError, where their checksum is known."""
        expected = self.official.sha256
        if expected not in (None, self.sha256):
            raise DataError(
                f"{self.where} is not the official file: expected sha256 {expected}, found {self.sha256} ("
                f"{len(self.data)} bytes where {self.official.size} are expected). Put the official file in its place "
                f"({self.official.url})."
            )


@dataclass(frozen=True, kw_only=True)
class OfficialFiles(DataSource):
    """An entry of a table: one set of official files, with what is known about them.

    address: beginning of the addresses of files that are downloaded one by one.
    above:   folder below the top folder that may contain these files.
    files:   size in bytes and sha256 of these files by path, where they are known.
    digests: other checksums, md5 or sha1, by file or part.
    sizes:   published number of examples or lines by subset or file.
    """

    address: str = ""
    above: str = ""
    files: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)

    def file(self, path: str) -> OfficialFile:
        """The file at a path, which may be missing in `files`."""
        size, sha256 = self.files.get(path, (None, None))
        destination = "/".join(filter(None, (self.paths[0], self.above, path)))
        return OfficialFile(path=destination, url=self.address + path, size=size, sha256=sha256)

    def read(self, paths: Sequence[str], folders: Folders) -> dict[str, FileContent]:
        """Contents of files, each from the first folder or archive that has it, or a download; else a DataError."""
        contents: dict[str, FileContent] = {}
        for tree in self.trees(folders):
            left = [path for path in paths if path not in contents]
            wanted = {stored: path for path in left for stored in (path, f"{self.above}/{path}")}
            for stored, where, file in tree.walk(wanted.__contains__) if wanted else ():
                path = wanted[stored]
                contents[path] = FileContent(where, whole(file, where), self.file(path))
        for path in paths:
            if path not in contents:
                local_file = fetch(self.file(path), folders)
                with reading(local_file):
                    content = read_regular(local_file)
                contents[path] = FileContent(str(local_file), content, self.file(path))
        return contents


Entry = TypeVar("Entry", bound=DataSource)


@overload
def read_table(module: str) -> dict[str, OfficialFiles]: ...


@overload
def read_table(module: str, kind: type[Entry]) -> dict[str, Entry]: ...


def read_table(module: str, kind: type[DataSource] = OfficialFiles) -> Mapping[str, DataSource]:
    """The entries of `official_files.yaml` beside a module (`__file__`) by name, as `OfficialFiles` or a subclass."""
    table = table_beside(module, "official_files.yaml")
    return {name: kind(**{key: _value(key, value) for key, value in entry.items()}) for name, entry in table.items()}


def _value(key: str, value: Any) -> Any:
    """A value of the yaml as a field's value; lists become tuples."""
    match value:
        case dict():
            inner = {name: _value(name, item) for name, item in value.items()}
            return OfficialFile(**inner) if key == "archive" else inner
        case list():
            return tuple(_value("", item) for item in value)
    return value
