"""Base class of errors that a user can mend."""

from collections.abc import Sequence


class UserError(Exception):
    """An error that a user can mend: its message says all, so that no traceback is shown."""


_MOST_LINES = 40


class ConfigError(UserError):
    """A configuration that cannot run. `problems`: one sentence each; `str()`: the whole message."""

    def __init__(self, problems: Sequence[str], program: str = "train.py") -> None:
        super().__init__(problems)
        self.problems, self.program = list(problems), program

    def __str__(self) -> str:
        n = len(self.problems)
        lines = [f"{n} problem{'' if n == 1 else 's'} in the configuration, nothing was run:"]
        lines += [f"  - {problem}" for problem in self.problems[:_MOST_LINES]]
        lines += [f"  - ... and {n - _MOST_LINES} more"] if n > _MOST_LINES else []
        return "\n".join([*lines, f"`python {self.program} --help` lists what is allowed."])
