"""Problems of a command line or a configuration, and errors that a user can mend."""

from collections.abc import Sequence

_MOST_LINES = 40


class Problem(str):
    """The sentence on one problem, which begins with the key, or the word of the command line, that it is about.

    key: what other code may ask for, so that it need not read the sentence.
    """

    __slots__ = ("key",)
    key: str

    def __new__(cls, key: str, text: str) -> "Problem":
        """Joins key and text."""
        problem = super().__new__(cls, key + text)
        problem.key = key
        return problem

    def with_note(self, note: str) -> "Problem":
        """The problem with a note at its end."""
        return Problem(self.key, self[len(self.key) :] + note)

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]  # a text has one
        """What a copy in another process is made of."""
        return self.key, self[len(self.key) :]


class UserError(Exception):
    """An error that a user can mend: its message says all, so that no traceback is shown."""


class ConfigError(UserError):
    """A configuration that cannot run. `problems`: one each; `str()`: the whole message."""

    def __init__(self, problems: Sequence[Problem], program: str = "train.py") -> None:
        super().__init__(problems)
        self.problems, self.program = list(problems), program

    def __str__(self) -> str:
        n = len(self.problems)
        lines = [f"{n} problem{'' if n == 1 else 's'} in the configuration, nothing was run:"]
        lines += [f"  - {problem}" for problem in self.problems[:_MOST_LINES]]
        lines += [f"  - ... and {n - _MOST_LINES} more"] if n > _MOST_LINES else []
        return "\n".join([*lines, f"`python {self.program} --help` lists what is allowed."])
