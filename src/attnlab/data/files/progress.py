"""Progress of slow work: nothing at first, then a bar on a terminal, or lines in a file or pipe."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
PATIENCE = 2.0
"""seconds before anything appears"""
LINE_SECONDS = 30.0
"""seconds between two lines in a file or a pipe"""


def say(text: str) -> None:
    """Prints one line on stderr."""
    print(text, file=sys.stderr, flush=True)


def track(
    items: Iterable[T], what: str, total: float | None, size: Callable[[T], float] = lambda item: 1
) -> Iterator[T]:
    """The items; shows progress on stderr once they take longer than `PATIENCE`.

    Args:
        what: label of the bar and the lines.
        total: sum of all sizes; None if unknown.
        size: share of an item in the total.
    """
    start, done, shown = time.monotonic(), 0.0, None
    try:
        for item in items:
            yield item
            done += size(item)
            if shown is None and time.monotonic() - start > PATIENCE:
                shown = (_Bar if sys.stderr.isatty() else _Lines)(what, total, start)
            if shown is not None:
                shown.update(done)
        if shown is not None:
            shown.finish()
    finally:
        if shown is not None:
            shown.stop()


class _Bar:
    def __init__(self, what: str, total: float | None, start: float) -> None:
        from rich.console import Console
        from rich.progress import Progress

        self.bar = Progress(console=Console(stderr=True), transient=True)
        self.task = self.bar.add_task(what, total=total)
        self.bar.start()

    def update(self, done: float) -> None:
        self.bar.update(self.task, completed=done)

    def finish(self) -> None:
        """It goes as it came."""

    def stop(self) -> None:
        self.bar.stop()


class _Lines:
    def __init__(self, what: str, total: float | None, start: float) -> None:
        self.what, self.total, self.start = what, total, start
        self.spoken: float | None = None

    def update(self, done: float) -> None:
        now = time.monotonic()
        if self.spoken is not None and now - self.spoken < LINE_SECONDS:
            return
        self.spoken = now
        if not self.total:
            return say(f"{self.what}: {done:,.0f} so far")
        left = (now - self.start) * max(self.total / done - 1, 0) if done else 0
        say(f"{self.what}: {min(done / self.total, 1):.0%}" + (f", about {left:.0f} s left" if left else ""))

    def finish(self) -> None:
        say(f"{self.what}: done in {time.monotonic() - self.start:.0f} s")

    def stop(self) -> None:
        """Nothing is open."""
