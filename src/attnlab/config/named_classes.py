"""Classes that a word names: kinds of task and positional encodings, one class in a file of that name."""

from pathlib import Path

KINDS, POSITIONS = "tasks/kinds", "attention/positions"
"""their folders"""


def kind_path(name: str) -> str:
    """Dotted path of a kind of task; `classification` is `attnlab.tasks.kinds.classification.ClassificationKind`."""
    return _path(name, KINDS, "Kind")


def positions_path(name: str) -> str:
    """Dotted path of a positional encoding; `rotary` is `attnlab.attention.positions.rotary.RotaryPositions`."""
    return _path(name, POSITIONS, "Positions")


def names_in(folder: str) -> list[str]:
    """The words that name a class of a folder."""
    files = (Path(__file__).parents[1] / folder).glob("[!_]*.py")
    return sorted(file.stem for file in files if file.stem != "base")


def _path(name: str, folder: str, suffix: str) -> str:
    """A dotted name is a path already."""
    return name if "." in name else f"attnlab.{folder.replace('/', '.')}.{name}.{name.title().replace('_', '')}{suffix}"
