"""What the scripts of the repository share: a command is imported and run, and Ctrl-C ends either with one line.

Imports next to nothing itself, so that the seconds that imports take are covered.
"""

import importlib
import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130
LOSING = ("importlib._bootstrap", "omegaconf")
"""modules that may lose an exception which comes in the middle of them, or raise another in its place"""


def run_script(command: str) -> int:
    """Call a command with the words of the command line; its exit code.

    Args:
        command: module and function, `attnlab.launch.train_cli:train_main`.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    module, _, function = command.partition(":")
    try:
        from attnlab.config.broken_pipe import exit_code_of

        return exit_code_of(getattr(importlib.import_module(module), function), sys.argv[1:])
    except KeyboardInterrupt:
        _say()
        return INTERRUPTED


def _interrupt(signum: int, frame: FrameType | None) -> None:
    """As Python does, but for `LOSING`: there the process ends at once."""
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(LOSING):
            _say()
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt


def _say() -> None:
    os.write(2, b"\nstopped by Ctrl-C\n")
