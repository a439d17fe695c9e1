"""Classes that a configuration names by a word: kinds of task and positional encodings, the files of a folder."""

from pathlib import Path

KINDS, POSITIONS = "tasks/kinds", "attention/positions"
"""folders with one class in each file, named by the file: kinds of task and positional encodings"""


def kind_path(name: str) -> str:
    """Dotted path of a kind of task; `classification` is `attnlab.tasks.kinds.classification.ClassificationKind`."""
    return _path_of_word(name, KINDS, "Kind")


def positions_path(name: str) -> str:
    """Dotted path of a positional encoding; `rotary` is `attnlab.attention.positions.rotary.RotaryPositions`."""
    return _path_of_word(name, POSITIONS, "Positions")


def names_in(folder: str) -> list[str]:
    """The words that name a class of a folder."""
    files = (Path(__file__).parents[2] / folder).glob("[!_]*.py")
    return sorted(file.stem for file in files if file.stem != "base")


def _path_of_word(name: str, folder: str, suffix: str) -> str:
    """A dotted name is a path already."""
    return name if "." in name else f"attnlab.{folder.replace('/', '.')}.{name}.{name.title().replace('_', '')}{suffix}"
