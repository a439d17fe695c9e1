"""Archives of run folders: read for a report, or unpacked beside run folders.

Copies of a run, in two archives or in an archive and a folder, are compared by their content. Equal ones are one run;
of two with the same configuration, the one with an outcome, or with more steps, is the run, and the other one the same
run at an earlier time. Any other difference is refused.
"""

import json
import os
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from shutil import rmtree
from typing import Any

from attnlab.data.files.fetch import DataError
from attnlab.data.files.file_lock import Timeout, held_lock
from attnlab.data.files.folder_or_archive import Header, members, reading
from attnlab.data.files.regular_file import read_regular
from attnlab.report.analysis_record import DIVERGED
from attnlab.report.runs.read_runs import found_below, grouped, matched_paths, short_name
from attnlab.run.read_run_files import LARGEST
from attnlab.run.run_lock import acquired_lock

SUFFIX = ".tar.xz"
BELOW = f"seed*{SUFFIX}"
"""archives that are looked for in a folder; others are read where they are named"""
LARGEST_ARCHIVE, FREE, EXPANSION = LARGEST["metrics.csv"], LARGEST["result.json"], 200
"""bytes of an archive's members: as many as one run may log, and of a small archive `FREE` and `EXPANSION` times its
own; archives of the claims expand to 2 MB and 29 times their own at most"""
MOST_FILES = 100_000
"""of an archive, from 25,000 runs"""
COMPARED = ("config.yaml", "metrics.csv", "result.json", "status.json")
OF_PROCESS, OF_STATE = {"pid", "host", "updated"}, {"state", "reason"}
"""entries of status.json that say nothing of a run, and nothing of one with a result"""
PART, ASIDE, LOCK = ".unpacked-", ".superseded-", ".unpacked.lock"
"""beside unpacked folders; a search for run folders leaves them out (`found_below`)"""


@dataclass(frozen=True)
class RunCopy:
    """A copy of a run: its folder, and the archive that it is from; None = a run folder."""

    folder: Path
    archive: Path | None = None

    @property
    def place(self) -> Path:
        """Where its user finds it."""
        return self.archive or self.folder


@dataclass
class ArchivedRuns:
    """The runs of archives below a temporary folder, by their names in the archives, each once.

    earlier: sentences on copies at an earlier time, which are left out.
    """

    root: Path
    copies: dict[str, RunCopy] = field(default_factory=dict)
    earlier: list[str] = field(default_factory=list)

    def name(self, folder: Path) -> str:
        """A folder for messages: in its archive, or as it is."""
        if not folder.is_relative_to(self.root):
            return str(folder)
        name = folder.relative_to(self.root).as_posix()
        return f"{self.copies[name].archive}: {name}" if name in self.copies else name


@contextmanager
def unpacked_archives(pattern: str | None) -> Iterator[ArchivedRuns | None]:
    """The runs of all archives at or below the paths that a glob matches; None without any archive.

    Raises:
        DataError: as `_unpack`, or two archives hold different copies of a run.
    """
    archives: set[Path] = set()
    for path in matched_paths(pattern) if pattern else ():
        archives |= set(found_below(path, BELOW)) if path.is_dir() else {path} if path.name.endswith(SUFFIX) else set()
    if not archives:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="attnlab-runs-") as folder:
        yield _merged(sorted(archives), Path(folder))


def unpack(archives: Iterable[Path], into: Path) -> tuple[int, list[str]]:
    """Unpacks the run folders that do not exist yet, none of them in part.

    A folder without an outcome goes aside where an archive has one, unless a process trains it.

    Returns:
        Their number, and sentences on copies at an earlier time.

    Raises:
        DataError: as `_unpack`, or different copies of a run; nothing is unpacked.
    """
    into.mkdir(parents=True, exist_ok=True)
    lock = held_lock(into / LOCK, -1.0, "unpack on another one")
    try:
        for left in into.glob(f"{PART}*"):
            # of a killed process, as a living one holds the lock
            rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=PART, dir=into) as part:
            runs = _merged(sorted(archives), Path(part))
            there = {name: RunCopy(into / name) for name in runs.copies if (into / name).exists()}
            chosen = {name: _later(copy, runs.copies[name]) for name, copy in there.items()}
            said = [*runs.earlier, *(sentence for _, sentence in chosen.values() if sentence)]
            ended = [name for name, (copy, _) in chosen.items() if copy.archive and _has_outcome(_content(copy.folder))]
            asides = {name: _replaced(into / name, runs.copies[name].folder) for name in ended}
            said += [f"{into / name} {f'went to {to}' if to else 'stays: it is locked'}" for name, to in asides.items()]
            new = [name for name in runs.copies if name not in there]
            for name in new:
                (into / name).parent.mkdir(parents=True, exist_ok=True)
                os.rename(runs.copies[name].folder, into / name)
    finally:
        lock.release()
    return sum(map(bool, asides.values())) + len(new), said


def without_copies(folders: Sequence[Path], runs: ArchivedRuns) -> list[Path]:
    """Folders of runs and of `runs`, each run once; copies that are left out are removed below the temporary folder.

    A folder and a run of an archive are copies if their whole names agree, or their last four parts and configurations.

    Raises:
        DataError: different copies of a run.
    """
    kept = list(folders)
    alike = grouped((folder, short_name(folder)) for folder in folders)
    for name, copy in list(runs.copies.items()):
        copies = alike.get(short_name(copy.folder), ())
        copies = [each for each in copies if _has_name(each, name) or _same_settings(each, copy.folder)]
        chosen = {folder: _later(RunCopy(folder), copy) for folder in copies}
        runs.earlier += [sentence for _, sentence in chosen.values() if sentence]
        kept = [folder for folder in kept if folder not in chosen or chosen[folder][0] is not copy]
        if any(later is not copy for later, _ in chosen.values()):
            rmtree(runs.copies.pop(name).folder)
    return [*kept, *(copy.folder for copy in runs.copies.values())]


def _merged(archives: Sequence[Path], root: Path) -> ArchivedRuns:
    """The runs of archives below a root; as `unpacked_archives`."""
    parts = [(archive, Path(tempfile.mkdtemp(prefix=PART, dir=root))) for archive in archives]
    copies = [(name, RunCopy(part / name, archive)) for archive, part in parts for name in _unpack(archive, part)]
    _require_apart({name: copy.archive for name, copy in copies})
    runs = ArchivedRuns(root)
    for name, copy in copies:
        later, sentence = _later(runs.copies.get(name, copy), copy)
        runs.earlier += [sentence] if sentence else []
        if later is copy:
            if name in runs.copies:
                rmtree(root / name)
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            os.rename(copy.folder, root / name)
            runs.copies[name] = RunCopy(root / name, copy.archive)
    for _, part in parts:
        rmtree(part)
    return runs


def _require_apart(archives: Mapping[str, Path | None]) -> None:
    """Checks the names of run folders, each with its archive; raises DataError for a run inside of another one."""
    for name, archive in archives.items():
        for outer in (str(parent) for parent in PurePosixPath(name).parents):
            if outer in archives:
                raise DataError(f"{archive}: the run {name} lies inside of the run {outer} of {archives[outer]}.")


def _unpack(archive: Path, part: Path) -> list[str]:
    """Unpacks an archive into an empty folder; returns the names of its run folders.

    Raises:
        DataError: it is damaged, larger than run folders are, or holds anything but whole run folders.
    """
    files: dict[str, set[str]] = defaultdict(set)
    with reading(archive), tarfile.open(archive, tarinfo=Header) as tar:
        limit = min(LARGEST_ARCHIVE, FREE + EXPANSION * archive.stat().st_size)
        for number, member in enumerate(members(tar)):
            name = PurePosixPath(member.name)
            where = f"{archive}: {name.as_posix()!a}"
            is_inside = len(name.parts) > 1 and not name.is_absolute() and ".." not in name.parts
            is_plain = member.isreg() and not member.issparse() and member.size <= LARGEST.get(name.name, -1)
            if not (is_inside and is_plain and member.name.isprintable()):
                raise DataError(f"{where} is no file of a run folder, or has far more than a run writes.")
            if number >= MOST_FILES or member.offset_data + member.size > limit:
                most = f"{MOST_FILES:,} files or {limit:,} bytes, the limits of an archive of its size"
                raise DataError(f"{archive} holds more than {most}. Unpack it by hand if it is to be trusted.")
            if name.name in files[name.parent.as_posix()]:
                raise DataError(f"{where} is in it twice.")
            files[name.parent.as_posix()].add(name.name)
            file = Path(part, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            opened = tar.extractfile(member)
            file.write_bytes(b"" if opened is None else opened.read())
    for run, of_run in files.items():
        if "config.yaml" not in of_run:
            raise DataError(f"{archive}: the run {run} has no config.yaml, only {', '.join(sorted(of_run))}.")
    return sorted(files)


def _later(first: RunCopy, second: RunCopy) -> tuple[RunCopy, str]:
    """Of two copies of a run the later one, and a sentence on the other; the first one, and no sentence, of equal ones.

    Raises:
        DataError: none of them is the run at an earlier time.
    """
    contents = _content(first.folder), _content(second.folder)
    if contents[0] == contents[1]:
        return first, ""
    reached = [(_has_outcome(content), _step(content)) for content in contents]
    differing = [name for name in COMPARED if contents[0].get(name) != contents[1].get(name)]
    name = short_name(second.folder)
    if ("config.yaml" in differing and all(contents)) or (reached[0][0] and reached[1][0]) or reached[0] == reached[1]:
        raise DataError(
            f"{first.place} and {second.place} hold different copies of the run {name} ({', '.join(differing)} differ);"
            " move one of them away."
        )
    later, earlier = (first, second) if reached[0] > reached[1] else (second, first)
    return later, f"{name} is taken from {later.place}; {earlier.place} has it at an earlier time"


def _content(folder: Path) -> dict[str, Any]:
    """What is compared of a run: its files, and the entries of its status that are of the run."""
    content: dict[str, Any] = {}
    with reading(folder):
        for name in COMPARED:
            if (folder / name).exists():
                content[name] = read_regular(folder / name, LARGEST[name])
    try:
        status = json.loads(content.get("status.json", b"null"))
    except (ValueError, RecursionError):
        return content
    if isinstance(status, dict):
        left_out = OF_PROCESS | (OF_STATE if "result.json" in content else set())
        content["status.json"] = {key: value for key, value in status.items() if key not in left_out}
    return content


def _has_name(folder: Path, name: str) -> bool:
    return folder.absolute().as_posix().endswith(f"/{name}")


def _same_settings(one: Path, other: Path) -> bool:
    return _content(one).get("config.yaml") == _content(other).get("config.yaml")


def _has_outcome(content: dict[str, Any]) -> bool:
    return "result.json" in content or str(_entry(content, "reason")).startswith(DIVERGED)


def _step(content: dict[str, Any]) -> int:
    step = _entry(content, "step")
    return step if isinstance(step, int) else 0


def _entry(content: dict[str, Any], key: str) -> Any:
    status = content.get("status.json")
    return status.get(key) if isinstance(status, dict) else None


def _replaced(place: Path, by: Path) -> Path | None:
    """Puts another folder in the place of a run folder, which goes to a folder that no search finds; returns its new
    path, None if a process trains the run: it stays.
    """
    try:
        lock = acquired_lock(place)
    except Timeout:
        return None
    try:
        aside = Path(tempfile.mkdtemp(prefix=ASIDE, dir=place.parent), place.name)
        os.rename(place, aside)
        os.rename(by, place)
    finally:
        lock.release()
    return aside
