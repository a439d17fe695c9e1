"""The end that a signal asks for. Imports nothing, for processes that only pass signals on."""


class Stopped(BaseException):
    """A run was asked to stop by a signal; training has saved its state.

    No Exception, as KeyboardInterrupt is none: what handles errors must not take this for one, and go on.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by signal {signum}")
        self.signum = signum
