"""The lock of a run folder says whether its process runs, before its number does."""

import errno
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from attnlab.run.run_lock import LOCK, acquired_lock, is_alive, is_locked

HERE = {"host": socket.gethostname(), "pid": os.getpid()}
ENDED = 2**22 + 1
"""no number of a process on Linux"""


def test_a_free_lock_says_that_a_run_is_gone_whoever_has_its_number_now(tmp_path: Path) -> None:
    (tmp_path / LOCK).touch()
    assert not is_alive(HERE, tmp_path)


def test_a_held_lock_says_that_a_run_is_alive_also_in_another_container_of_this_name(tmp_path: Path) -> None:
    lock = acquired_lock(tmp_path)
    assert is_alive(HERE | {"pid": ENDED}, tmp_path) and is_alive({"host": "node17", "pid": 1}, tmp_path)
    lock.release()
    assert not is_alive(HERE, tmp_path) and not is_alive({"host": "node17", "pid": 1}, tmp_path)


def test_a_killed_process_leaves_a_free_lock(tmp_path: Path) -> None:
    code = f"""
import signal
from pathlib import Path
from attnlab.run.run_lock import acquired_lock
lock = acquired_lock(Path({str(tmp_path)!r}))
print("held", flush=True)
signal.pause()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"held\n"
        assert is_alive(HERE, tmp_path)
        process.send_signal(signal.SIGKILL)
    assert not is_alive(HERE, tmp_path)


def test_the_number_decides_where_the_lock_cannot_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_alive(HERE, tmp_path) and not is_alive(HERE | {"pid": ENDED}, tmp_path)
    assert not (tmp_path / LOCK).exists(), "asking leaves no file"
    (tmp_path / LOCK).touch()

    def flock(*inputs: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", flock)
    assert is_alive(HERE, tmp_path) and not is_alive(HERE | {"pid": ENDED}, tmp_path)
    assert not is_locked(tmp_path)


def test_asking_opens_the_lock_for_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a folder that another user owns, or that is mounted to be read."""
    lock, opened, real = acquired_lock(tmp_path), [], os.open
    monkeypatch.setattr("os.open", lambda path, flags, *more: opened.append(flags) or real(path, flags, *more))
    assert is_alive(HERE | {"pid": ENDED}, tmp_path)
    assert opened and not any(flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT) for flags in opened)
    lock.release()
