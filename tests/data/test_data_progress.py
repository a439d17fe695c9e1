"""Progress messages of preparation and downloads, for a pipe and for a terminal."""

import os
import pty
import subprocess
import sys
from itertools import islice

import pytest

from attnlab.data.files import progress
from attnlab.data.files.progress import track

SLOW = """
import time
from attnlab.data.files import progress
progress.PATIENCE = 0.1
for number in progress.track(range(6), "drawing numbers", 6):
    time.sleep(0.1)
"""


class Time:
    """A clock that tests set."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    clock = Time()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def spend(clock: Time, seconds: float, what: str, count: int, total: float | None, **more: object) -> None:
    for _ in track(range(count), what, total, **more):
        clock.now += seconds


def test_lines_come_now_and_then_in_a_pipe(clock: Time, capsys: pytest.CaptureFixture[str]) -> None:
    spend(clock, 1, "drawing sort-of-CLEVR train", 100, 100)
    assert capsys.readouterr().err.splitlines() == [
        "drawing sort-of-CLEVR train: 3%, about 97 s left",
        "drawing sort-of-CLEVR train: 33%, about 67 s left",
        "drawing sort-of-CLEVR train: 63%, about 37 s left",
        "drawing sort-of-CLEVR train: 93%, about 7 s left",
        "drawing sort-of-CLEVR train: done in 100 s",
    ]


def test_what_is_quick_says_nothing(clock: Time, capsys: pytest.CaptureFixture[str]) -> None:
    spend(clock, 0.01, "reading", 100, 100)
    assert capsys.readouterr().err == ""


def test_without_a_total_lines_count(clock: Time, capsys: pytest.CaptureFixture[str]) -> None:
    spend(clock, 3, "reading files", 12, None, size=lambda _: 1000)
    assert capsys.readouterr().err.splitlines() == [
        "reading files: 1,000 so far",
        "reading files: 11,000 so far",
        "reading files: done in 36 s",
    ]


def test_a_total_that_is_passed_or_empty_is_no_error(clock: Time, capsys: pytest.CaptureFixture[str]) -> None:
    spend(clock, 20, "reading", 4, 2)
    spend(clock, 20, "empty ones", 2, 5, size=lambda _: 0)
    assert capsys.readouterr().err.splitlines() == [
        "reading: 50%, about 20 s left",
        "reading: 100%",
        "reading: done in 80 s",
        "empty ones: 0%",
        "empty ones: done in 40 s",
    ]


def test_who_stops_early_reads_no_end(clock: Time, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in islice(track(range(9), "drawing", 9), 3):
        clock.now += 5
    assert capsys.readouterr().err.splitlines() == ["drawing: 11%, about 40 s left"]


def test_a_build_in_a_pipe_is_not_silent() -> None:
    done = subprocess.run([sys.executable, "-c", SLOW], capture_output=True, text=True, check=True, timeout=60)
    first, last = done.stderr.splitlines()
    assert first.startswith("drawing numbers: ") and last == "drawing numbers: done in 1 s"


def test_a_terminal_shows_a_bar() -> None:
    reader, writer = pty.openpty()
    subprocess.run([sys.executable, "-c", SLOW], stderr=writer, check=True, timeout=60)
    os.close(writer)
    shown = os.read(reader, 2**16).decode()
    os.close(reader)
    assert "drawing numbers" in shown and "━" in shown and "done in" not in shown
