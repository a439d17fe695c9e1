"""Checksum of the content of a file of weights, which the file holds: it shows that the content was edited.

It lies inside, not beside the file or in status.json, so that no kill separates the two, and an earlier copy fits too.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import torch

CHECKSUM = "checksum"
"""its key in the file"""


def content_checksum(state: Mapping[str, Any]) -> str:
    """The sha256 of nested plain values and tensors, without the entry `CHECKSUM`; the same on every device."""
    digest = hashlib.sha256()
    _add(digest, {key: value for key, value in state.items() if key != CHECKSUM})
    return digest.hexdigest()


def with_checksum(state: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a file with its checksum."""
    return {**state, CHECKSUM: content_checksum(state)}


def is_edited(saved: Mapping[str, Any]) -> bool:
    """Whether the content does not fit its checksum, or has none."""
    return saved.get(CHECKSUM) != content_checksum(saved)


def _add(digest: Any, value: Any) -> None:
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
