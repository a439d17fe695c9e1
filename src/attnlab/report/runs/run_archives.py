"""Archives of run folders without weights (.tar.xz), as `experiments/campaign.py` writes them."""

import os
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from attnlab.data.files.fetch import DataError
from attnlab.data.files.folder_or_archive import Header, members, reading
from attnlab.report.runs.read_runs import matched_paths
from attnlab.run.read_run_files import LARGEST

SUFFIX = ".tar.xz"
BELOW = f"seed*{SUFFIX}"
"""archives that are looked for in a folder; others are read where they are named"""


@contextmanager
def unpacked_archives(pattern: str | None) -> Iterator[Path | None]:
    """A temporary folder with the runs of all archives at or below the paths that a glob matches; None without any.

    Raises:
        DataError: as `unpack`.
    """
    archives: set[Path] = set()
    for path in matched_paths(pattern) if pattern else ():
        archives |= set(path.rglob(BELOW)) if path.is_dir() else {path} if path.name.endswith(SUFFIX) else set()
    if not archives:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="attnlab-runs-") as folder:
        for archive in sorted(archives):
            unpack(archive, Path(folder))
        yield Path(folder)


def unpack(archive: Path, into: Path) -> int:
    """Unpacks the run folders that do not exist yet; returns their number. No folder is ever there in part.

    Raises:
        DataError: it is damaged, or holds anything but the files of run folders.
    """
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unpacked-", dir=into) as part:
        with reading(archive), tarfile.open(archive, tarinfo=Header) as tar:
            for member in members(tar):
                name = PurePosixPath(member.name)
                is_inside = len(name.parts) > 1 and not name.is_absolute() and ".." not in name.parts
                is_plain = member.isreg() and not member.issparse() and member.size <= LARGEST.get(name.name, -1)
                if not (is_inside and is_plain):
                    raise DataError(f"{archive}: {name} is no file of a run folder, or has far more than a run writes.")
                file = Path(part, name)
                file.parent.mkdir(parents=True, exist_ok=True)
                opened = tar.extractfile(member)
                file.write_bytes(b"" if opened is None else opened.read())
        count = 0
        for config in sorted(Path(part).rglob("config.yaml")):
            folder = into / config.parent.relative_to(part)
            if not folder.exists():
                folder.parent.mkdir(parents=True, exist_ok=True)
                os.rename(config.parent, folder)
                count += 1
    return count
