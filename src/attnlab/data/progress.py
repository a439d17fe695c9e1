"""What a user sees while data is made or fetched: one line, or a bar once it takes longer than a moment."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
PATIENCE = 2.0
"""seconds before a bar appears"""


def say(text: str) -> None:
    """One line on stderr."""
    print(text, file=sys.stderr, flush=True)


def track(
    items: Iterable[T], what: str, total: float | None, size: Callable[[T], float] = lambda item: 1
) -> Iterator[T]:
    """The items, with a bar on stderr once they take longer than `PATIENCE`; none where stderr is no terminal.

    Args:
        what: label of the bar.
        total: sum of all sizes, None where unknown.
        size: what an item counts for.
    """
    start, done, bar, task = time.monotonic(), 0.0, None, None
    try:
        for item in items:
            yield item
            done += size(item)
            if bar is None and time.monotonic() - start > PATIENCE and sys.stderr.isatty():
                from rich.console import Console
                from rich.progress import Progress

                bar = Progress(console=Console(stderr=True), transient=True)
                task = bar.add_task(what, total=total)
                bar.start()
            if bar is not None and task is not None:
                bar.update(task, completed=done)
    finally:
        if bar is not None:
            bar.stop()
