"""Frame of every command: --help, --version, one message for an error that a user can mend, and the exit code."""

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import attnlab
from attnlab.config.message_text import as_started
from attnlab.config.problem import ConfigError, UserError

FAILED, USAGE_ERROR = 1, 2
Main = Callable[..., int]
"""runs the words of a command line; returns the exit code"""


def command(help_text: Callable[[], str], needs_words: bool = True, prefix: str = "failed") -> Callable[[Main], Main]:
    """Decorator of the main function of a command.

    Args:
        needs_words: without any word it shows its help.
        prefix: beginning of the message for an error that its user can mend.
    """

    def framed(main: Main) -> Main:
        @wraps(main)
        def run(argv: Sequence[str], *more: Any) -> int:
            empty = needs_words and not argv
            if empty or any(word in ("--help", "-h") for word in argv):
                print(as_started(help_text()))
                return USAGE_ERROR if empty else 0
            if "--version" in argv:
                print(f"attnlab {attnlab.__version__}")
                return 0
            try:
                return main(argv, *more)
            except ConfigError as error:
                print(as_started(str(error)), file=sys.stderr)
                return USAGE_ERROR
            except Exception as error:
                reason = _reason(error)
                if not reason:
                    raise
                print(as_started(f"{prefix}: {reason}"), file=sys.stderr)
                return FAILED

        return run

    return framed


def _reason(error: Exception) -> str:
    """What the user is told about an error that can be mended; empty for another one."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, MemoryError):
        return f"does not fit into memory; make the sizes smaller that are set here ({error})"
    # what it imports is not needed for help
    from attnlab.config.classes.broken_packages import import_problem

    return import_problem(error)
