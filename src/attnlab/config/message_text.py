"""Parts of error messages: short lists of choices, values as a user types them."""

import contextlib
import difflib
import os
import re
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

PLUGINS = "ATTNLAB_PLUGINS"
"""environment variable: packages whose classes a configuration may name (`config.targets`)"""
MOST_OFFERED = 8
"""choices that a message lists at most, besides the nearest one"""


WIDE = 200
"""columns of tables in a file or a pipe"""


def table_console() -> "Console":
    """The console of tables: as wide as the terminal; a file or a pipe takes long lines. Names may hold brackets."""
    # rich takes a tenth of a second
    from rich.console import Console

    return Console(width=None if Console().is_terminal else WIDE, markup=False)


def command_line(program: str, *words: str) -> str:
    """A command to paste into a shell, with quotes for folder names that hold blanks or brackets.

    Commands of this project begin with the allowed packages (`config.targets`), which the run may need again.
    """
    plugins = os.environ.get(PLUGINS, "") if program.startswith("python ") else ""
    allowed = f"{PLUGINS}={shlex.quote(plugins)} " if plugins else ""
    return allowed + shlex.join([*as_started(program).split(), *words])


def as_started(text: str) -> str:
    """A text with the names of commands as the user starts them: `attnlab-train` instead of `python train.py`."""
    if not Path(sys.argv[0]).name.startswith("attnlab-"):
        return text
    return re.sub(r"(?:python )?\b(train|evaluate|report)\.py\b", r"attnlab-\1", text)


def short_path(path: Path | str) -> str:
    """A path for the console: relative to the current folder where it lies below it."""
    with contextlib.suppress(ValueError, OSError):
        return str(Path(path).absolute().relative_to(Path.cwd()))
    return str(path)


def hint(word: str | None) -> str:
    """`; nearest: word`, or nothing."""
    return f"; nearest: {word}" if word else ""


def counted(number: int | None, noun: str) -> str:
    """A number of things: `1 run`, `3 runs`, `2 processes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{'es' if noun.endswith('s') else 's'}"


def listed(words: Iterable[str], most: int = 60, number: int | None = None, separator: str = ", ") -> str:
    """Words joined by commas; a long list is cut.

    Args:
        number: of all words, where only the first are given.
        separator: instead of commas, between words that hold some.
    """
    words = list(words)
    number, shown = len(words) if number is None else number, separator.join(words[:most])
    return f"{shown}{separator}... ({number} in all)" if number > most else shown or "nothing"


def offered(words: Iterable[str], like: str = "", most: int = MOST_OFFERED) -> str:
    """Allowed words; of a long list some of them and the number of the others.

    Args:
        like: the words most similar to this one are shown; empty: the first ones.
        most: number of words shown.
    """
    words = list(words)
    near = sorted(words, key=lambda word: -difflib.SequenceMatcher(None, like.lower(), word.lower()).ratio())
    chosen = set((near if like else words)[:most])
    more = len(words) - most
    return listed(word for word in words if word in chosen) + (f" and {more} more" if more > 0 else "")


def first_line(error: BaseException) -> str:
    """First line of the message of an error; of its cause, as Hydra and OmegaConf wrap errors."""
    message = str(error.__cause__ or error) or type(error).__name__
    return message.splitlines()[0]


def show(value: Any) -> str:
    """A value as written in yaml, cut if long."""
    text = _show(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _show(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case list():
            return "[" + ",".join(map(_show, value)) + "]"
        case dict():
            return "{" + ", ".join(f"{key}: {_show(item)}" for key, item in value.items()) + "}"
    return str(value)
