"""Where the source of a module lies, found without importing anything, parent packages included."""

import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from attnlab.config.suggest import nearest


@dataclass(frozen=True)
class Place:
    """A module or package on disk.

    file:    its source; None of a folder without `__init__.py`, and of what is no Python source.
    folders: where its parts lie; none where it is no package.
    """

    file: Path | None
    folders: tuple[Path, ...] = ()


def find_module(name: str) -> Place | None:
    """The place of a dotted name; None where there is none.

    `importlib.util.find_spec` would import the parents of the module.
    """
    first, *rest = name.split(".")
    place = _top(first)
    for part in rest:
        place = None if place is None else _inside(place, part)
    return place


def _top(name: str) -> Place | None:
    try:
        spec = importlib.util.find_spec(name) if name.isidentifier() else None
    except ValueError:
        # A module in sys.modules without a spec, such as __main__.
        return None
    if spec is None:
        return None
    source = spec.origin if spec.origin is not None and spec.origin.endswith(".py") else None
    return Place(source and Path(source), tuple(map(Path, spec.submodule_search_locations or ())))


def _inside(place: Place, name: str) -> Place | None:
    """A part of a package. Not by Python's finders: of a folder without `__init__.py` they need the imported parent."""
    if not name.isidentifier():
        return None
    for folder in place.folders:
        if (source := folder / name / "__init__.py").is_file():
            return Place(source, (folder / name,))
        if (source := folder / f"{name}.py").is_file():
            return Place(source)
    folders = tuple(folder / name for folder in place.folders if (folder / name).is_dir())
    return Place(None, folders) if folders else None


def nearest_module(name: str, packages: Iterable[str]) -> str | None:
    """The module most like a name that is not there: right up to its first wrong part.

    Args:
        packages: that the first part may mean.
    """
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        place, known = find_module(".".join(parts[:end])), parts[:end]
        if place is not None:
            found = nearest(parts[end], _parts(place))
            return ".".join([*known, found]) if found else None
    return nearest(parts[0], packages)


def _parts(place: Place) -> list[str]:
    """Modules and packages in a package."""
    found = [path for folder in place.folders if folder.is_dir() for path in sorted(folder.iterdir())]
    return [path.stem for path in found if path.suffix == ".py" or (path.is_dir() and path.name.isidentifier())]
