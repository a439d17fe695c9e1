"""Atomic writes: after a failure or a crash a file is the old one or the new one, never a part."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from attnlab.config.problem import UserError

IDENTITY = "identity"
"""key of the run's identity (`config.run_identity.identity`) in status.json, result.json and every file of weights"""


class SaveError(UserError):
    """Weights could not be saved; earlier files are unchanged."""


def save_atomically(write: Callable[[Path], None], path: Path) -> None:
    """Write a temporary file next to `path`, then rename it to `path`.

    Raises:
        SaveError: no space, or no permission.
    """
    part = path.with_name(path.name + ".part")
    try:
        write(part)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    except (OSError, RuntimeError) as error:
        with contextlib.suppress(OSError):
            part.unlink()
        # torch reports a full disk as a RuntimeError of its file writer; other RuntimeErrors are bugs.
        if isinstance(error, RuntimeError) and "PytorchStreamWriter" not in str(error):
            raise
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise SaveError(
            f"cannot save {path} ({reason}); make room or make it writable, then repeat the "
            "command: it goes on from the last checkpoint that was saved whole"
        ) from error
