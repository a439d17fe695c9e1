"""Content hashes of files, and the memo that spares a second reading."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from attnlab.data.files import content_hashes
from attnlab.data.files.content_hashes import MEMO, content_hash
from attnlab.data.files.fetch import DataError

HASHER = """
import sys
from pathlib import Path
from attnlab.data.files import content_hashes
content_hashes.UNSETTLED = -10**18
for path in sorted(Path(sys.argv[1]).iterdir()):
    print(content_hashes.content_hash([("", path)], Path(sys.argv[2]), "checking"))
"""


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as settled at once."""
    monkeypatch.setattr(content_hashes, "UNSETTLED", -(10**18))


class Files:
    """Two files in a folder, with a cache."""

    def __init__(self, folder: Path) -> None:
        self.cache, self.paths = folder / "cache", [folder / "a", folder / "b"]
        self.memo = self.cache / MEMO
        for path in self.paths:
            path.write_text(f"content of {path.name}")

    def hash(self) -> str:
        return content_hash([(path.name, path) for path in self.paths], self.cache, "checking")


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch, files: Files) -> pytest.MonkeyPatch:
    """No file but the memo can be read once the fixture's files have been hashed."""
    before = files.hash()

    def refuse(path: Path) -> None:
        raise AssertionError(f"{path} is read again")

    monkeypatch.setattr(content_hashes, "open_regular", refuse)
    assert files.hash() == before
    return monkeypatch


@pytest.mark.usefixtures("settled", "unread")
def test_files_that_did_not_change_are_read_once(files: Files) -> None:
    assert len(json.loads(files.memo.read_text())) == 1
    files.paths[1].write_text("CONTENT OF b")
    with pytest.raises(AssertionError, match="is read again"):
        files.hash()


def replaced(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes().upper())
    other.rename(path)


def edited(path: Path) -> None:
    path.write_bytes(path.read_bytes().upper())


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("change", [replaced, edited])
def test_another_content_of_equal_size_and_time_is_another_content(files: Files, change: object) -> None:
    before, status = files.hash(), files.paths[0].stat()
    change(files.paths[0])
    os.utime(files.paths[0], ns=(status.st_atime_ns, status.st_mtime_ns))
    assert files.paths[0].stat().st_size == status.st_size
    assert files.hash() != before


@pytest.mark.usefixtures("settled")
def test_names_belong_to_the_content(files: Files) -> None:
    before = files.hash()
    names = [("b", files.paths[0]), ("a", files.paths[1])]
    assert content_hash(names, files.cache, "checking") != before


def test_a_file_that_changed_just_now_is_not_remembered(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    files.hash()
    assert not files.memo.exists()
    monkeypatch.setattr(content_hashes.time, "time_ns", lambda: files.paths[1].stat().st_ctime_ns + 10**10)
    files.hash()
    assert files.memo.exists()


@pytest.mark.usefixtures("settled")
def test_a_file_that_changes_while_it_is_read_is_not_remembered(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = content_hashes._contents

    def changing(*args: object) -> list[str]:
        result = list(whole(*args))
        files.paths[0].write_text("changed")
        return result

    monkeypatch.setattr(content_hashes, "_contents", changing)
    files.hash()
    assert not files.memo.exists()


DAMAGED = ["", "{", "[]", "null", '{"a": 1}', '{"a": "b"}', "[" * 100_000, "\x00" * 50]


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("damage", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_memo_is_made_anew(files: Files, damage: str) -> None:
    before = files.hash()
    files.memo.write_text(damage)
    assert files.hash() == before
    assert before in json.loads(files.memo.read_text()).values()


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("place", ["folder", "pipe", "cut"])
def test_a_memo_that_cannot_be_read_or_written_does_no_harm(files: Files, place: str) -> None:
    before = files.hash()
    if place == "cut":
        files.memo.write_bytes(files.memo.read_bytes()[:-20])
    else:
        files.memo.unlink()
        files.memo.mkdir() if place == "folder" else os.mkfifo(files.memo)
    assert files.hash() == before
    assert [path.name for path in files.cache.iterdir()] == [MEMO]


@pytest.mark.usefixtures("settled")
def test_a_cache_that_cannot_be_written_does_no_harm(files: Files) -> None:
    files.cache.write_text("a file")
    assert files.hash() == files.hash()


@pytest.mark.usefixtures("settled")
def test_the_memo_stays_small(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_hashes, "MOST", 3)
    for number in range(5):
        files.paths[0].write_text("x" * number)
        last = files.hash()
    assert list(json.loads(files.memo.read_text()).values())[-1] == last
    assert len(json.loads(files.memo.read_text())) == 3


def test_processes_at_once_agree_and_leave_a_whole_memo(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    for number in range(40):
        (tmp_path / f"files/{number}").write_text(str(number))
    command = [sys.executable, "-c", HASHER, str(tmp_path / "files"), str(tmp_path / "cache")]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    replies = {process.communicate(timeout=60)[0] for process in processes}
    (hashes,) = (reply.split() for reply in replies)
    remembered = json.loads((tmp_path / "cache" / MEMO).read_text())
    assert len(set(hashes)) == 40 and set(remembered.values()) <= set(hashes)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [MEMO]


@pytest.mark.parametrize("place", ["folder", "pipe", "absent"])
def test_what_is_no_file_is_named(files: Files, place: str) -> None:
    files.paths[0].unlink()
    if place != "absent":
        files.paths[0].mkdir() if place == "folder" else os.mkfifo(files.paths[0])
    with pytest.raises(DataError, match=str(files.paths[0])):
        files.hash()
