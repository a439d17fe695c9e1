"""Hashes of the code that makes a run's numbers: sources of attnlab, and of each package that a configuration names.

A commit does not tell it: a mechanism is developed with uncommitted changes, and a package of the user's may be in no
checkout. Sources are read and never imported; each hash is taken once in a process, as modules are imported once.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from attnlab.config.classes.words import kind_path, positions_path
from attnlab.config.targets import PACKAGE, TargetError, find_module, read_signature, target_paths

WITHOUT_NUMBERS = ("launch", "plots", "report")
"""rooms of attnlab that make no number of a run; config does: the plan of layers, the number of steps, types"""


def code_of(config: Mapping[str, Any]) -> dict[str, str]:
    """attnlab, and every package with a class that a run's configuration names, with their hashes.

    A package without a source or a file of its own, such as `__main__`, is left out.
    """
    names = sorted({path.partition(".")[0] for path in _class_paths(config)} - {PACKAGE})
    return {name: value for name in (PACKAGE, *names) if (value := package_hash(name))}


def _class_paths(config: Mapping[str, Any]) -> Iterator[str]:
    """Dotted paths of the classes of a configuration: targets at any depth, positions, the kind of the task."""
    yield from (path for _, path in target_paths(config))
    for section in ("backbone", "model"):
        if positions := config[section].get("positions"):
            yield positions_path(positions)
    with suppress(TargetError):
        # the class was imported by the check of the configuration
        yield kind_path(str(read_signature(config["task"]["_target_"]).declares("kind")))


@cache
def package_hash(name: str) -> str | None:
    """The hash of a package or of a module that is one file; None if it has no file.

    All `*.py` of a package count by path and content, comments too, in folders that can be imported; a linked file
    counts by its content, a linked folder does not.
    """
    if (spec := find_module(name)) is None:
        return None
    places = list(spec.submodule_search_locations or ()) or [spec.origin or ""]
    aside = WITHOUT_NUMBERS if name == PACKAGE else ()
    sources = sorted(source for place in places for source in _sources(Path(place), aside))
    digest = hashlib.sha256()
    for source in sources:
        digest.update(b"%s\0%s\n" % source)
    return digest.hexdigest()[:12] if sources else None


def _sources(place: Path, aside: Sequence[str]) -> Iterator[tuple[bytes, bytes]]:
    """Relative path and hash of every source below a folder; of a file, or of the archive that holds the place."""
    if not place.is_dir():
        file = next((path for path in (place, *place.parents) if path.is_file()), None)
        if file is not None:
            yield os.fsencode(file.name), _content_hash(file)
        return
    for folder, folders, files in os.walk(place):
        left_out = aside if Path(folder) == place else ()
        folders[:] = [part for part in folders if part.isidentifier() and part not in left_out]
        for file_name in files:
            if file_name.endswith(".py") and not file_name.startswith("."):
                path = Path(folder, file_name)
                yield os.fsencode(path.relative_to(place).as_posix()), _content_hash(path)


def _content_hash(path: Path) -> bytes:
    """The hash of a file's content; empty if it cannot be read or is no plain file, as then it cannot be imported."""
    with suppress(OSError):
        # a pipe would block
        if path.is_file():
            return hashlib.sha256(path.read_bytes()).hexdigest().encode()
    return b""
