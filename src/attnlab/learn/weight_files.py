"""Files of weights: atomic writes, and a checksum of the content, which shows that it was edited.

After a failure or a crash a file is the old one or the new one, never a part. The checksum lies inside, not beside the
file or in status.json, so that no kill separates the two, and an earlier copy fits too.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attnlab.config.problem import UserError

CHECKSUM = "checksum"
"""its key in the file"""
IDENTITY = "identity"
"""key of the run's identity (`config.run_identity.identity`) in status.json, result.json and every file of weights"""


class SaveError(UserError):
    """Weights could not be saved; earlier files are unchanged."""


def save_atomically(write: Callable[[Path], None], path: Path) -> None:
    """Write a temporary file next to `path`, then rename it to `path`. Raises SaveError: no space, or no permission."""
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


def content_checksum(state: Mapping[str, Any]) -> str:
    """The sha256 of nested plain values and tensors, without the entry `CHECKSUM`; the same on every device."""
    digest = hashlib.sha256()
    _add(digest, {key: value for key, value in state.items() if key != CHECKSUM})
    return digest.hexdigest()


def with_checksum(state: Mapping[str, Any]) -> dict[str, Any]:
    return {**state, CHECKSUM: content_checksum(state)}


def is_edited(saved: Mapping[str, Any]) -> bool:
    """Whether the content does not fit its checksum, or has none."""
    return saved.get(CHECKSUM) != content_checksum(saved)


def _add(digest: Any, value: Any) -> None:
    # here, since readers of the other files of a run folder need no torch
    import torch

    if isinstance(value, torch.Tensor):
        digest.update(f"{value.dtype}{tuple(value.shape)}".encode())
        value = value.detach().cpu()
        stored = value.untyped_storage()
        if value.nbytes > stored.nbytes():
            # rows that share memory: a file of 1 KB can hold any shape
            value = torch.empty(0, dtype=torch.uint8).set_(stored)
        digest.update(value.contiguous().flatten().view(torch.uint8).numpy())
    elif isinstance(value, Mapping):
        digest.update(f"mapping {len(value)}:".encode())
        for item in value.items():
            _add(digest, item)
    elif isinstance(value, list | tuple):
        digest.update(f"list {len(value)}:".encode())
        for item in value:
            _add(digest, item)
    else:
        digest.update(f"{value!r};".encode())
