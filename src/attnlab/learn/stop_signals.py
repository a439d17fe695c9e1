"""Signals that stop a run: during training after the step, whose state is saved; elsewhere at once."""

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

URGENT = (signal.SIGTERM, signal.SIGINT)
"""the same one again means: at once"""
PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)
"""Slurm's notices of a time-out or a preemption, which a launcher may have asked for as well"""
NOTICES = (signal.SIGHUP, *PASSED_ON)
"""come several times where several processes send them: a lost terminal and its shell both send SIGHUP"""

Handlers = Mapping[int, Any]


class Stopped(BaseException):
    """A run was asked to stop by a signal; training has saved its state.

    No Exception, as KeyboardInterrupt is none: what handles errors must not take this for one, and go on.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by signal {signum}")
        self.signum = signum


def heard() -> list[signal.Signals]:
    """The signals that stop a run here; without notices that this process was started to ignore, as by nohup."""
    return [*URGENT, *(signum for signum in NOTICES if signal.getsignal(signum) is not signal.SIG_IGN)]


@contextmanager
def handled_by(handle: Callable[[int, FrameType | None], None]) -> Iterator[Handlers]:
    """Handle the signals in this block; yields the former handlers, which come back after it."""
    former = {signum: signal.signal(signum, handle) for signum in heard()}
    try:
        yield former
    finally:
        for signum, handler in former.items():
            # None: a handler that is no Python function, which Python cannot put back
            signal.signal(signum, signal.SIG_DFL if handler is None else handler)


def pass_on(came: Sequence[int], former: Handlers) -> None:
    """Call the handlers that notices would have met without ours, such as one that puts the job back into a queue."""
    for signum in dict.fromkeys(came):
        if signum in PASSED_ON and callable(former.get(signum)):
            former[signum](signum, None)


class StopRequest:
    """Remembers the signals that came; outside `deferred` the first raises `Stopped` at once.

    In either case a second Ctrl-C or SIGTERM raises it at once.
    """

    def __init__(self) -> None:
        self.came: list[int] = []
        self.former: Handlers = {}
        self.deferred = False

    def pending(self) -> int | None:
        return self.came[0] if self.came else None

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        again = signum in self.came and signum in URGENT
        first = not self.came
        self.came.append(signum)
        if again or (first and not self.deferred):
            raise Stopped(signum)

    def install(self) -> None:
        """Take over the signals again: Lightning puts handlers of its own in place when training starts."""
        for signum in self.former:
            signal.signal(signum, self._handle)

    @contextmanager
    def listening(self) -> Iterator["StopRequest"]:
        """Handle the signals in this block; the former handlers come back after it."""
        with handled_by(self._handle) as self.former:
            yield self

    def pass_on(self) -> None:
        """After `listening`, when the run is closed: what came goes on to handlers that were there before."""
        pass_on(self.came, self.former)
