"""Files that are there whole or not at all."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

IDENTITY = "identity"
"""key in every file of weights: the run that it is of (`config.naming.identity`)"""


class SaveError(Exception):
    """Weights could not be saved; what was saved before is untouched."""


def save_atomically(write: Callable[[Path], None], path: Path) -> None:
    """Write a file beside `path`, then put it in place: a reader finds the old file or the new one, never a part.

    Raises:
        SaveError: no space, or no permission.
    """
    save_together({path: write})


def save_together(files: Mapping[Path, Callable[[Path], None]]) -> None:
    """The same for several files: all are written before the first is put in place.

    Raises:
        SaveError: no space, or no permission; none was put in place unless that itself failed.
    """
    parts = {path: path.with_name(path.name + ".part") for path in files}
    path = next(iter(files))
    try:
        for path, write in files.items():
            write(parts[path])
            with parts[path].open("rb") as file:
                os.fsync(file.fileno())
        for path, part in parts.items():
            part.replace(path)
    except (OSError, RuntimeError) as error:
        for part in parts.values():
            part.unlink(missing_ok=True)
        # torch reports a full disk as a RuntimeError of its file writer; any other one is none of ours.
        if isinstance(error, RuntimeError) and "PytorchStreamWriter" not in str(error):
            raise
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise SaveError(
            f"cannot save {path} ({reason}); make room or make it writable, then repeat the "
            "command: it goes on from the last checkpoint that was saved whole"
        ) from error
