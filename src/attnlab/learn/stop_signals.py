"""Signals that stop a run: during training after the current step, whose state is saved; otherwise at once."""

import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

URGENT = (signal.SIGTERM, signal.SIGINT)
"""sent twice, they stop the run at once"""
SAME_NOTICE_SECONDS = 3.0
"""SIGTERM within so many seconds of the first is no second one: Slurm sends it for the job and again for its step"""
PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)
"""Slurm's notices of a time-out or a preemption; a launcher may handle them as well"""
NOTICES = (signal.SIGHUP, *PASSED_ON)
"""may come several times from several processes: a lost terminal and its shell both send SIGHUP"""

unheard: list[int] = []
"""signals that came to a worker process while no `StopRequest` was listening; the next one gets them"""

Handlers = Mapping[int, Callable[[int, FrameType | None], Any] | int | None]
"""what Python calls for each signal; None: no Python function"""


class Stopped(BaseException):
    """A signal stopped the run; training has saved its state. No Exception: handlers of errors must not catch it."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.signum = signum


def heard() -> list[signal.Signals]:
    """The signals that stop a run, without notices that this process ignores from the start, as under nohup."""
    return [*URGENT, *(signum for signum in NOTICES if signal.getsignal(signum) is not signal.SIG_IGN)]


@contextmanager
def handled_by(handle: Callable[[int, FrameType | None], None]) -> Iterator[Handlers]:
    """Handle the signals in this block; yields the former handlers, which are restored after it."""
    former: Handlers = {signum: signal.signal(signum, handle) for signum in heard()}
    try:
        yield former
    finally:
        for signum, handler in former.items():
            # None: the handler is no Python function, and Python cannot restore it
            signal.signal(signum, signal.SIG_DFL if handler is None else handler)


def pass_on(came: Sequence[int], former: Handlers) -> None:
    """Call the former handlers of notices that came, such as one that requeues the job."""
    for signum in dict.fromkeys(came):
        handler = former.get(signum)
        if signum in PASSED_ON and callable(handler):
            handler(signum, None)


class StopRequest:
    """Records stop signals; the first one raises `Stopped` at once, unless `deferred` is set.

    A second Ctrl-C, or a second SIGTERM later than `SAME_NOTICE_SECONDS`, always raises it at once.
    """

    def __init__(self) -> None:
        self.came: list[int] = []
        self.first_at = 0.0
        self.former: Handlers = {}
        self.deferred = False
        self.elsewhere: int | None = None

    def pending(self) -> int | None:
        """Number of the first signal that came, here or to another process of the run (`heed`), or None."""
        return self.came[0] if self.came else self.elsewhere

    def heed(self, signum: int) -> None:
        """Stop for a signal that another process of the run has got; the same signal here is then no second one."""
        if not self.came:
            self.elsewhere = signum

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        first, now = not self.came, time.monotonic()
        same = signum == signal.SIGTERM and now - self.first_at < SAME_NOTICE_SECONDS
        again = signum in self.came and signum in URGENT and not same
        self.first_at = now if first else self.first_at
        self.came.append(signum)
        if again or (first and not self.deferred and self.elsewhere is None):
            raise Stopped(signum)

    def defer(self) -> None:
        """Let stops wait for the end of a step, and handle signals again: Lightning installs handlers of its own."""
        for signum in self.former:
            signal.signal(signum, self._handle)
        self.deferred = True

    @contextmanager
    def listening(self) -> Iterator["StopRequest"]:
        """Handle the signals in this block; the former handlers are restored after it."""
        with handled_by(self._handle) as self.former:
            if unheard:
                self._handle(unheard[0], None)
            yield self

    @contextmanager
    def after_block(self) -> Iterator[None]:
        """Let stops wait for the end of this block: an import that is interrupted leaves half a module behind."""
        self.deferred = True
        try:
            yield
        finally:
            self.deferred = False
        if self.came:
            raise Stopped(self.came[0])

    def pass_on(self) -> None:
        """Call the former handlers of the signals that came; to be used after `listening`, when the run is closed."""
        pass_on(self.came, self.former)
