"""Downloads of official files: search, whole downloads, resumed downloads, refused files."""

import errno
import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support.dev_full import needs_dev_full

from attnlab.data.files.fetch import DataError, Folders, OfficialFile, disk_errors, fetch

CONTENT = bytes(range(256)) * 2000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@dataclass
class Server:
    """Behaviour of the server, and the Range header of every request (None without one)."""

    url: str = ""
    cut: list[int] = field(default_factory=list)
    knows_range: bool = True
    ranges: list[str | None] = field(default_factory=list)
    content: bytes = CONTENT


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            state.ranges.append(wanted)
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and state.knows_range else 0
            if self.path == "/nothing" or (start and start >= len(state.content)):
                self.send_error(404 if self.path == "/nothing" else 416)
                return
            body = state.content[start:]
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: state.cut.pop(0)] if state.cut else body)

        def log_message(self, *args: object) -> None: ...

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{http.server_port}/file.bin"
    yield state
    http.shutdown()
    http.server_close()
    thread.join(5)


def official(server: Server, **changes: object) -> OfficialFile:
    options = {"path": "task/file.bin", "url": server.url, "size": len(CONTENT), "sha256": SHA256} | changes
    return OfficialFile(**options)


def left_in(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"}


def test_downloads_once(server: Server, tmp_path: Path) -> None:
    for _ in range(2):
        path = fetch(official(server), Folders(tmp_path / "data", tmp_path / "cache"))
        assert path == tmp_path / "data/task/file.bin"
        assert path.read_bytes() == CONTENT
    assert server.ranges == [None]
    assert left_in(tmp_path) == {"file.bin"}


@pytest.mark.parametrize("known", [True, False])
def test_a_cut_connection_is_taken_up_again(server: Server, tmp_path: Path, known: bool) -> None:
    server.cut = [100_000, 65_536]
    file = official(server) if known else official(server, size=None, sha256=None)
    assert fetch(file, Folders(tmp_path, tmp_path)).read_bytes() == CONTENT
    assert server.ranges[0] is None
    assert len(server.ranges) == 3
    assert all(wanted is not None for wanted in server.ranges[1:])


def test_a_connection_that_brings_nothing_more_is_given_up_and_resumed_later(server: Server, tmp_path: Path) -> None:
    server.cut = [100_000, 0]
    with pytest.raises(DataError, match="could not be downloaded"):
        fetch(official(server), Folders(tmp_path, tmp_path))
    got = (tmp_path / "task/file.bin.part").stat().st_size
    assert 0 < got <= 100_000
    assert fetch(official(server), Folders(tmp_path, tmp_path)).read_bytes() == CONTENT
    assert server.ranges[-1] == f"bytes={got}-"


def test_resumes_what_a_dead_process_left(server: Server, tmp_path: Path) -> None:
    (tmp_path / "task").mkdir()
    (tmp_path / "task/file.bin.part").write_bytes(CONTENT[:1234])
    assert fetch(official(server), Folders(tmp_path, tmp_path)).read_bytes() == CONTENT
    assert server.ranges == ["bytes=1234-"]


@pytest.mark.parametrize("part", [CONTENT[:500], CONTENT + b"more"])
def test_starts_again_where_resuming_is_impossible(server: Server, tmp_path: Path, part: bytes) -> None:
    server.knows_range = len(part) > len(CONTENT)
    (tmp_path / "task").mkdir()
    (tmp_path / "task/file.bin.part").write_bytes(part)
    assert fetch(official(server), Folders(tmp_path, tmp_path)).read_bytes() == CONTENT
    assert server.ranges[0] is not None


def test_a_wrong_download_is_removed_and_nothing_else(server: Server, tmp_path: Path) -> None:
    (tmp_path / "task").mkdir()
    (tmp_path / "task/mine.txt").write_text("mine")
    with pytest.raises(DataError, match=f"expected sha256 {'0' * 64}, found {SHA256}"):
        fetch(official(server, sha256="0" * 64), Folders(tmp_path, tmp_path))
    assert left_in(tmp_path) == {"mine.txt"}


@pytest.mark.parametrize("content", [CONTENT[:-1], b"x" + CONTENT[1:]], ids=["truncated", "changed"])
def test_a_wrong_file_is_refused_and_kept(server: Server, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "task").mkdir()
    path = tmp_path / "task/file.bin"
    path.write_bytes(content)
    with pytest.raises(DataError) as error:
        fetch(official(server), Folders(tmp_path, tmp_path))
    for part in (str(path), SHA256, hashlib.sha256(content).hexdigest(), f"{len(content)} bytes", server.url):
        assert part in str(error.value)
    assert path.read_bytes() == content
    assert server.ranges == []


def test_an_unknown_checksum_is_recorded_then_checked(server: Server, tmp_path: Path) -> None:
    file = official(server, sha256=None, size=None)
    path = fetch(file, Folders(tmp_path, tmp_path))
    assert path.with_name("file.bin.sha256").read_text() == f"{SHA256}  file.bin\n"
    assert fetch(file, Folders(tmp_path, tmp_path)) == path
    path.write_bytes(CONTENT[:-5])
    with pytest.raises(DataError, match=SHA256):
        fetch(file, Folders(tmp_path, tmp_path))


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/file.bin", "/nothing"])
def test_without_a_source_one_message_says_all(server: Server, tmp_path: Path, address: str) -> None:
    url = address if address.startswith("http") else server.url.replace("/file.bin", address)
    with pytest.raises(DataError) as error:
        fetch(official(server, url=url), Folders(tmp_path / "data", tmp_path / "cache"))
    for part in ("file.bin", url, f"{len(CONTENT) / 1e6:.1f} MB", str(tmp_path / "data/task/file.bin")):
        assert part in str(error.value)


def test_read_only_data_folder_downloads_to_the_cache(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: "data" not in Path(path).name)
    (tmp_path / "data").mkdir()
    path = fetch(official(server), Folders(tmp_path / "data", tmp_path / "cache"))
    assert path == tmp_path / "cache/downloads/task/file.bin"
    assert fetch(official(server), Folders(tmp_path / "data", tmp_path / "cache")) == path
    assert len(server.ranges) == 1


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_disk_errors_become_a_sentence(code: int) -> None:
    with (
        pytest.raises(DataError, match=r"writing x in /some/where failed: .*ATTNLAB_DATA"),
        disk_errors("writing x", Path("/some/where")),
    ):
        raise OSError(code, os.strerror(code))


def test_other_disk_errors_pass_unchanged() -> None:
    with pytest.raises(OSError, match="broken"), disk_errors("writing x", Path("/some/where")):
        raise OSError(errno.EIO, "broken")


@needs_dev_full
def test_full_disk_while_downloading(server: Server, tmp_path: Path) -> None:
    (tmp_path / "task").mkdir()
    (tmp_path / "task/file.bin.part").symlink_to("/dev/full")
    with pytest.raises(DataError, match="no space left"):
        fetch(official(server), Folders(tmp_path, tmp_path))


def test_processes_that_fetch_together_download_once(server: Server, tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from attnlab.data.files.fetch import Folders, OfficialFile, fetch;"
        "p = pathlib.Path(sys.argv[2]);"
        f"fetch(OfficialFile(path='task/file.bin', url=sys.argv[1], sha256='{SHA256}'), Folders(p, p))"
    )
    command = [sys.executable, "-c", code, server.url, str(tmp_path)]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    assert [(process.communicate(timeout=60)[1], process.returncode) for process in processes] == [("", 0)] * 2
    assert server.ranges == [None]


@pytest.mark.parametrize("place", ["folder", "empty", "bytes", "link"])
def test_a_recorded_checksum_that_cannot_be_read_is_named(tmp_path: Path, place: str) -> None:
    file, record = tmp_path / "data/task/file.bin", tmp_path / "data/task/file.bin.sha256"
    record.parent.mkdir(parents=True)
    file.write_bytes(b"content")
    match place:
        case "folder":
            record.mkdir()
        case "link":
            record.symlink_to("nowhere")
        case _:
            record.write_bytes(b"" if place == "empty" else b"\xff\xfe")
    with pytest.raises(DataError, match=r"file\.bin"):
        fetch(OfficialFile(path="task/file.bin", url="http://127.0.0.1:9/"), Folders(tmp_path / "data", tmp_path / "c"))
