from collections.abc import Sequence

from attnlab.launch.launcher import Launcher
from attnlab.launch.run_job import JobTask


class Reversed(Launcher):
    """Runs the last job first."""

    def __init__(self, announce: bool = False) -> None:
        self.announce = announce

    def run(self, tasks: Sequence[JobTask]) -> list[int]:
        if self.announce:
            print(f"{len(tasks)} jobs")
        return [task.run() for task in reversed(tasks)][::-1]
