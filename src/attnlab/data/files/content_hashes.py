"""Identity of official files by their content: what is derived from them in the cache is named by it.

Sizes and times are no identity: archives, rsync and image layers give other files the same ones. Large files are not
read at every start: `content_hashes.json` in the cache folder holds what was computed for files of the same device,
inode, size and times of change. It may be removed at any time.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from attnlab.data.files.fetch import plain_file
from attnlab.data.files.progress import track
from attnlab.data.files.regular_file import LARGEST, open_regular, read_regular

MEMO = "content_hashes.json"
MOST = 1000
"""entries of the memo; the oldest go first"""
UNSETTLED = 2 * 10**9
"""ns: a file that changed so shortly before it was read may change again with the same times"""
PIECE = 2**20

NamedFiles = Sequence[tuple[str, str | Path]]
"""names below the top folder, and paths"""
State = tuple[int, int, int, int, int]


def state_of(status: os.stat_result) -> State:
    """Device, inode, size and times (ns) of a file: if any of them changed, it may have another content."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def content_hash(files: NamedFiles, cache: Path, activity: str) -> str:
    """sha256 of the names and contents of files, in hex digits; of the content alone for one file of the name "".

    Args:
        cache: folder of the memo.
        activity: names the work in its progress, such as "checking aclImdb".

    Raises:
        DataError: a file cannot be read, or is none.
    """
    states = _states(files)
    known = _digest(json.dumps([[name, *state] for (name, _), state in zip(files, states, strict=True)]))
    if (remembered := _read(cache / MEMO).get(known)) is not None:
        return remembered
    began = time.time_ns()
    digests = list(_contents(files, sum(size for _, _, size, _, _ in states), activity))
    named = [[name, digest] for (name, _), digest in zip(files, digests, strict=True)]
    content = digests[0] if [name for name, _ in named] == [""] else _digest(json.dumps(named))
    if _settled(states, began) and _states(files) == states:
        _remember(cache / MEMO, known, content)
    return content


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _states(files: NamedFiles) -> list[State]:
    states = []
    for _, path in files:
        with plain_file(path):
            states.append(state_of(os.stat(path)))
    return states


def _settled(states: Iterable[State], began: int) -> bool:
    """Whether no file has a time of change near the time in which it was read."""
    first, last = began - UNSETTLED, time.time_ns() + UNSETTLED
    return not any(first <= changed <= last for state in states for changed in state[-2:])


def _contents(files: NamedFiles, size: int, activity: str) -> Iterator[str]:
    """sha256 of each file."""
    hashes = [hashlib.sha256() for _ in files]
    for number, piece in track(_pieces(files), activity, size, lambda item: len(item[1])):
        hashes[number].update(piece)
    return (each.hexdigest() for each in hashes)


def _pieces(files: NamedFiles) -> Iterator[tuple[int, bytes]]:
    for number, (_, path) in enumerate(files):
        with plain_file(path), open_regular(Path(path)) as file:
            while piece := file.read(PIECE):
                yield number, piece


def _read(memo: Path) -> dict[str, str]:
    """The entries, from the oldest; none of a missing or damaged file."""
    try:
        entries = json.loads(read_regular(memo, LARGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    items = entries.items() if isinstance(entries, dict) else ()
    return {key: value for key, value in items if isinstance(value, str) and len(value) == len(key)}


def _remember(memo: Path, known: str, content: str) -> None:
    """Adds an entry. Of two processes at once one loses its own, which is then computed again; nothing else breaks."""
    entries = {key: value for key, value in _read(memo).items() if key != known} | {known: content}
    unfinished = memo.with_name(f".{memo.name}.{os.getpid()}")
    # a cache that cannot be written serves too
    with suppress(OSError):
        memo.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(json.dumps(dict(list(entries.items())[-MOST:]), indent=1))
        os.replace(unfinished, memo)
    with suppress(OSError):
        unfinished.unlink(missing_ok=True)
