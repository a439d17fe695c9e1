"""SIGTERM and Ctrl-C: during training they ask for a stop after the step; elsewhere they stop at once."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from attnlab.learn.callbacks import Stopped

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopRequest:
    """Remembers the first signal while `deferred`; a second one, or one outside, raises `Stopped` at once."""

    def __init__(self) -> None:
        self.signum: int | None = None
        self.deferred = False

    def pending(self) -> int | None:
        return self.signum

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if self.deferred and self.signum is None:
            self.signum = signum
            return
        raise Stopped(signum)

    def install(self) -> None:
        """Take over both signals (again: Lightning puts handlers of its own in place when training starts)."""
        for signum in SIGNALS:
            signal.signal(signum, self._handle)

    @contextmanager
    def listening(self) -> Iterator["StopRequest"]:
        """Handle the signals in this block; the former handlers come back after it."""
        former = {signum: signal.getsignal(signum) for signum in SIGNALS}
        self.install()
        try:
            yield self
        finally:
            for signum, handler in former.items():
                signal.signal(signum, handler)
