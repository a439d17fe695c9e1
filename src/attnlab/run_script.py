"""Start of the commands: runs one, prints on any terminal, and ends quietly on Ctrl-C and on a closed output.

The imports here are cheap, so that Ctrl-C is handled during the seconds that a command's own imports take.
"""

import codecs
import importlib
import io
import os
import select
import signal
import sys
import unicodedata
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TextIO

INTERRUPTED = 130
UNREAD = 128 + signal.SIGPIPE
"""exit code of a command whose output is no longer read, as a shell counts it"""
LOSING = ("importlib._bootstrap", "omegaconf")
"""modules in which an exception of a signal handler may be lost or replaced by another one"""
PLAIN = {"\N{PLUS-MINUS SIGN}": "+-", "\N{RIGHTWARDS ARROW}": "->", "\N{MINUS SIGN}": "-"}
"""ASCII forms of signs in texts of ours; a letter loses its accent, and another sign is a question mark"""


def train() -> int:
    """`python train.py` and `attnlab-train`."""
    return run_script("attnlab.launch.train_cli:train_main")


def evaluate() -> int:
    """`python evaluate.py` and `attnlab-evaluate`."""
    return run_script("attnlab.launch.evaluate_cli:evaluate_main")


def report() -> int:
    """`python report.py` and `attnlab-report`."""
    return run_script("attnlab.report.cli:report_main")


def run_script(command: str) -> int:
    """Run a command with the arguments of the command line; returns its exit code.

    Args:
        command: module and function, `attnlab.launch.train_cli:train_main`.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    module, _, function = command.partition(":")
    try:
        return exit_code_of(getattr(importlib.import_module(module), function), sys.argv[1:])
    except KeyboardInterrupt:
        _report_interrupt()
        return INTERRUPTED


def exit_code_of(main: Callable[[Sequence[str]], int], argv: Sequence[str]) -> int:
    """Exit code of a main function; `UNREAD` if its reader left early, as in `python train.py --help | head`.

    SIGPIPE stays ignored, Python's default: a broken connection of a library must not kill a training run.
    """
    _print_plainly()
    try:
        code = main(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        output = sys.__stdout__
        if output is None or not _is_closed(output):
            raise
        # Otherwise Python tries to write the rest at exit, and prints a warning.
        os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())
        return UNREAD
    return code


def _print_plainly() -> None:
    """Let an output that lacks a sign print its plain form, instead of ending the command."""
    codecs.register_error("attnlab_plain", _plain_form)
    for output in (sys.stdout, sys.stderr):
        # the defaults, the second one in the C locale; stderr has another one, which replaces every sign
        if isinstance(output, io.TextIOWrapper) and output.errors in ("strict", "surrogateescape"):
            output.reconfigure(errors="attnlab_plain")


def _plain_form(error: UnicodeError) -> tuple[str, int]:
    """The signs that an encoding lacks in ASCII, and where the text goes on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = error.object[error.start : error.end]
    letters = (unicodedata.normalize("NFKD", sign).encode("ascii", "ignore").decode() for sign in signs)
    return "".join(PLAIN.get(sign) or letter or "?" for sign, letter in zip(signs, letters, strict=True)), error.end


def _is_closed(output: TextIO) -> bool:
    poll = select.poll()
    poll.register(output, select.POLLOUT)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _interrupt(signum: int, frame: FrameType | None) -> None:
    """Python's default handler; inside `LOSING` modules it ends the process at once."""
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(LOSING):
            _report_interrupt()
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt


def _report_interrupt() -> None:
    os.write(2, b"\nstopped by Ctrl-C\n")
