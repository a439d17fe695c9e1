"""Progress of slow work: nothing at first, then a bar on a terminal, or lines in a file or pipe."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

T = TypeVar("T")
Update = Callable[[float], None]
"""shows the sum of the sizes of all items so far"""
PATIENCE = 2.0
"""seconds before anything appears"""
LINE_SECONDS = 30.0
"""seconds between two lines in a file or a pipe"""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def track(
    items: Iterable[T], activity: str, total: float | None, size: Callable[[T], float] = lambda item: 1
) -> Iterator[T]:
    """The items; shows progress on stderr once they take longer than `PATIENCE`.

    Args:
        total: sum of all sizes; None if unknown.
        size: share of an item in the total.
    """
    start, done, update = time.monotonic(), 0.0, None
    with ExitStack() as stack:
        for item in items:
            yield item
            done += size(item)
            if update is None and time.monotonic() - start > PATIENCE:
                update = stack.enter_context((_bar if sys.stderr.isatty() else _lines)(activity, total, start))
            if update is not None:
                update(done)


@contextmanager
def _bar(activity: str, total: float | None, start: float) -> Iterator[Update]:
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(activity, total=total)
        yield lambda done: bar.update(task, completed=done)


@contextmanager
def _lines(activity: str, total: float | None, start: float) -> Iterator[Update]:
    """Lines; the last one only comes if the work is not given up."""
    spoken: float | None = None

    def update(done: float) -> None:
        nonlocal spoken
        now = time.monotonic()
        if spoken is not None and now - spoken < LINE_SECONDS:
            return
        spoken = now
        if not total:
            return say(f"{activity}: {done:,.0f} so far")
        left = (now - start) * max(total / done - 1, 0) if done else 0
        say(f"{activity}: {min(done / total, 1):.0%}" + (f", about {left:.0f} s left" if left else ""))

    yield update
    say(f"{activity}: done in {time.monotonic() - start:.0f} s")
