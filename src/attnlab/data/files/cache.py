"""Cache of prepared data: one process builds a folder while others wait, and a folder is complete or missing.

A build writes into a temporary folder next to the final one, flushes it to the disk and renames it. A build that was
killed leaves only the temporary folder, which the next build removes. Arrays are stored as `.npy`, so that they can be
mapped into memory and processes on one machine share them.

The manifest holds the size and content hash of every file. Each process reads every file of a build once, at its first
use, to compare them (0.16 s for sort-of-CLEVR's 174 MB).
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np

from attnlab.data.files.content_hashes import State, state_of
from attnlab.data.files.fetch import DataError, disk_errors, exclusive
from attnlab.data.files.progress import say
from attnlab.data.files.regular_file import LARGEST, NotRegular, open_regular, read_regular

MANIFEST = "manifest.json"
"""sizes and content hashes of a finished build's files, by name"""
ABSENT, CHANGED = "is not there", "was cut short or changed"
# fast on every processor; sha256 needs special instructions
HASH = partial(hashlib.blake2b, digest_size=16)

_checked: dict[Path, list[State]] = {}
"""folders whose content this process has compared, with the state of each file"""


def cache_key(name: str, version: int, options: Mapping[str, object]) -> str:
    """Folder name for data that depends only on the arguments; the order of options does not matter."""
    digest = hashlib.sha256(json.dumps(dict(options), sort_keys=True).encode()).hexdigest()
    return f"{name}-v{version}-{digest[:12]}"


def build_once(folder: Path, build: Callable[[Path], None], data_name: str) -> Path:
    """`folder`, filled by `build` unless an earlier build exists; safe among processes and against kill -9.

    A finished folder with a missing or changed file is built again, with a message, so a build must be repeatable.

    Args:
        build: fills an empty folder, given by its path.
        data_name: names the data in messages.

    Raises:
        DataError: no space on the disk, or a folder without permission to write.
    """
    if (fault := _fault(folder)) is None:
        return folder
    anew = "" if fault == ABSENT else f" anew ({folder} {fault})"
    with disk_errors(f"preparing {data_name}{anew}", folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(folder.with_name(folder.name + ".lock"), data_name):
            # the process that held the lock before may have finished the build, or died and left these folders
            for leftover in folder.parent.glob(f".{folder.name}.*"):
                _remove(leftover)
            if (fault := _fault(folder)) is not None:
                _build(folder, build, data_name, fault)
    return folder


def load_arrays(folder: Path) -> dict[str, np.ndarray]:
    """The arrays of a folder by name, mapped, read-only; of a finished build its own only. A DataError: one is none."""
    manifest = _manifest(folder)
    files = sorted(path for path in folder.glob("*.npy") if manifest is None or path.name in manifest)
    return {path.stem: _load(path) for path in files}


def _load(path: Path) -> np.ndarray:
    try:
        # refuses a pipe, for which np.load would wait
        with open_regular(path):
            return np.load(path, mmap_mode="r")
    except (ValueError, EOFError, NotRegular) as error:
        raise DataError(f"{path} is no array ({error}). Remove {path.parent}: it is then made anew.") from error


def _manifest(folder: Path) -> dict[str, list] | None:
    """Size and hash of each file by name; None without a valid manifest."""
    try:
        manifest = json.loads(read_regular(folder / MANIFEST, LARGEST))
    except (OSError, ValueError):
        return None
    return manifest if manifest and isinstance(manifest, dict) else None


def _fault(folder: Path) -> str | None:
    """Why a folder is not a valid finished build, as part of a sentence; None for a valid one."""
    manifest = _manifest(folder)
    if manifest is None:
        return CHANGED if folder.exists() else ABSENT
    return None if _as_written(folder, manifest) else CHANGED


def _as_written(folder: Path, manifest: Mapping[str, list]) -> bool:
    """Whether the files of a folder equal its manifest; their content is compared once per process."""
    # hidden files such as ._images.npy (macOS writes them on other disks) do not count
    if any(path.name not in manifest for path in folder.glob("[!.]*.npy")):
        return False
    try:
        stats = [(folder / name).stat() for name in sorted(manifest)]
        state = [state_of(stat) for stat in stats]
        same = _checked.get(folder) == state or all(_entry(folder / name) == manifest[name] for name in manifest)
    except OSError:
        return False
    if same:
        _checked[folder] = state
    return same


def _entry(path: Path) -> list:
    """Size and content hash of a file."""
    with open_regular(path) as file:
        return [path.stat().st_size, hashlib.file_digest(file, HASH).hexdigest()]


def _build(folder: Path, build: Callable[[Path], None], data_name: str, fault: str) -> None:
    unfinished = folder.with_name(f".{folder.name}.{os.getpid()}")
    unfinished.mkdir()
    try:
        build(unfinished)
        files = [path for path in unfinished.rglob("*") if path.is_file()]
        manifest = {path.relative_to(unfinished).as_posix(): _entry(path) for path in files}
        (unfinished / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True, allow_nan=False))
        for path in [*unfinished.rglob("*"), unfinished]:
            _sync(path)
        if folder.exists():
            say(f"{folder} {fault}: {data_name} is made anew")
            # moved rather than emptied, because another process may have mapped its arrays
            os.replace(folder, unfinished.with_name(unfinished.name + ".old"))
        os.replace(unfinished, folder)
        _sync(folder.parent)
    finally:
        for leftover in (unfinished, unfinished.with_name(unfinished.name + ".old")):
            with suppress(OSError):
                _remove(leftover)


def _remove(path: Path) -> None:
    """Removes a folder, or a file at the path of a folder."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def save_arrays(folder: Path, **arrays: np.ndarray) -> None:
    """Writes each array to `<folder>/<name>.npy`.

    np.save is not used, because its error on a full disk has no error number.
    """
    for name, array in arrays.items():
        with (folder / f"{name}.npy").open("wb") as file:
            contiguous = np.ascontiguousarray(array)
            write_header(file, contiguous.dtype, contiguous.shape)
            file.write(contiguous.data)


def write_header(file: BinaryIO, dtype: np.dtype, shape: tuple[int, ...]) -> None:
    """Writes the header of a `.npy` file, which has room for a longer first dimension."""
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
