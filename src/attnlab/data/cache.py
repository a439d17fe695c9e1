"""Data that is made once and kept: built by one process while others wait, whole or not there at all.

A build writes into a folder of its own beside the final one, is flushed to the disk and renamed into place. A build
that died leaves only such a folder, which the next one removes. Arrays are kept as `.npy`, so that they map into memory
and processes on one machine share them.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from attnlab.data.fetch import disk_errors, exclusive
from attnlab.data.progress import say

MANIFEST = "manifest.json"
"""names and sizes of a finished build's files"""


def cache_key(name: str, version: int, options: Mapping[str, object]) -> str:
    """Folder name for data that depends on nothing but these; equal for equal options in any order."""
    digest = hashlib.sha256(json.dumps(dict(options), sort_keys=True).encode()).hexdigest()
    return f"{name}-v{version}-{digest[:12]}"


def build_once(folder: Path, build: Callable[[Path], None], what: str) -> Path:
    """`folder`, filled by `build` unless an earlier build did; safe among processes and against kill -9.

    A finished folder with a file missing or of another size is built anew (and said so): `build` must only make what
    can be made again.

    Args:
        build: fills an empty folder, given by its path.
        what: names the data in messages.

    Raises:
        DataError: no space on the disk, or a folder that cannot be written.
    """
    if _whole(folder):
        return folder
    with disk_errors(f"preparing {what}", folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(folder.with_name(folder.name + ".lock"), what):
            # whoever held the lock before may have built it; whoever died holding it left these
            for leftover in folder.parent.glob(f".{folder.name}.*"):
                shutil.rmtree(leftover)
            if not _whole(folder):
                _build(folder, build, what)
    return folder


def save_arrays(folder: Path, **arrays: np.ndarray) -> None:
    """Writes each array to `<folder>/<name>.npy`.

    Not by np.save: on a full disk its error carries no error number.
    """
    for name, array in arrays.items():
        with (folder / f"{name}.npy").open("wb") as file:
            contiguous = np.ascontiguousarray(array)
            np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(contiguous))
            file.write(contiguous.data)


def load_arrays(folder: Path) -> dict[str, np.ndarray]:
    """The arrays of a folder by name, mapped into memory, read-only."""
    return {path.stem: np.load(path, mmap_mode="r") for path in sorted(folder.glob("*.npy"))}


def _whole(folder: Path) -> bool:
    try:
        sizes = json.loads((folder / MANIFEST).read_text())
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (FileNotFoundError, NotADirectoryError, ValueError, AttributeError):
        return False


def _build(folder: Path, build: Callable[[Path], None], what: str) -> None:
    beside = folder.with_name(f".{folder.name}.{os.getpid()}")
    beside.mkdir()
    try:
        build(beside)
        files = [path for path in beside.rglob("*") if path.is_file()]
        sizes = {path.relative_to(beside).as_posix(): path.stat().st_size for path in files}
        (beside / MANIFEST).write_text(json.dumps(sizes, indent=1, sort_keys=True))
        for path in [*beside.rglob("*"), beside]:
            _sync(path)
        if folder.exists():
            say(f"{folder} was cut short or changed: {what} is made anew")
            # moved, not emptied in place: another process may have its arrays mapped
            os.replace(folder, beside.with_name(beside.name + ".old"))
        os.replace(beside, folder)
        _sync(folder.parent)
    finally:
        for leftover in (beside, beside.with_name(beside.name + ".old")):
            shutil.rmtree(leftover, ignore_errors=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
