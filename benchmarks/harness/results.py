"""Results of earlier measurements, read for a target: the csv files of a folder, and what a target finds in them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.tables import read

CPU = "cpu"

Row = Mapping[str, str]


@dataclass(frozen=True)
class Found:
    """A measured value, whether it meets the target (None: only partly measured), and a row with the environment."""

    text: str
    met: bool | None
    row: Row


class Results:
    """The csv files of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def newest(self, name: str, machine: str = "") -> list[Row]:
        """Returns the rows of the newest file of a name whose device has `machine` in its name."""
        for file in reversed(self._files(name)):
            if (rows := read(file)) and machine in rows[0]["device"]:
                return rows
        return []

    def last(self, name: str, machine: str, **wanted: str) -> Row | None:
        """Returns the newest row of a name and machine with these values, from any file."""
        rows = [row for file in self._files(name) for row in read(file)]
        fitting = [r for r in rows if machine in r.get("device", CPU) and all(r.get(k) == v for k, v in wanted.items())]
        return fitting[-1] if fitting else None

    def _files(self, name: str) -> list[Path]:
        return sorted(file for file in self.folder.glob(f"{name}-*.csv") if file.stem.rsplit("-", 2)[0] == name)
