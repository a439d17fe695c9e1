"""Base class of errors that a user can mend."""


class UserError(Exception):
    """An error that a user can mend: its message says all, so that no traceback is shown."""
