"""Commands whose reader leaves early: `python train.py --help | head` ends as other tools do, without a traceback."""

import os
import select
import signal
import sys
from collections.abc import Callable, Sequence

UNREAD = 128 + signal.SIGPIPE
"""exit code of a command whose output nobody reads any more, as a shell counts it"""


def exit_code_of(main: Callable[[Sequence[str]], int], argv: Sequence[str]) -> int:
    """What a command's main function returns; `UNREAD` where its standard output was closed before all was written.

    The signal itself stays ignored, as Python does: a library's broken connection must not kill a training run.
    """
    try:
        code = main(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        if not _closed():
            raise
        # else Python tries to write the rest once more at its end, and complains
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())
        return UNREAD
    return code


def _closed() -> bool:
    """Whether the reader of the standard output is gone."""
    poll = select.poll()
    poll.register(sys.__stdout__, select.POLLOUT)
    return any(event & select.POLLERR for _, event in poll.poll(0))
