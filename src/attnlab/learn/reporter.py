"""Progress of training and evaluation: a bar in a terminal, lines in a file."""

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from attnlab.data.files.progress import LINE_SECONDS


class Reporter:
    """Shows the progress of a job.

    Args:
        style: bar, lines, none, or auto (bar in a terminal, lines elsewhere).
        label: starts every line, where several processes write; auto means lines then.
    """

    def __init__(self, style: str, label: str = "") -> None:
        self.console, self.label = Console(stderr=True), label
        alone = self.console.is_terminal and not label
        self.style = ("bar" if alone else "lines") if style == "auto" else style
        self.progress: Progress | None = None

    def say(self, text: str) -> None:
        """Print a line, above the bar if there is one."""
        if self.style != "none":
            self.console.print(f"{self.label} {text}" if self.label else text, highlight=False, soft_wrap=True)

    def start(self, activity: str, total: int, done: int = 0) -> None:
        """Start to show the progress of `activity`, which has `total` parts."""
        self.stop()
        self.activity, self.first, self.total, self.started = activity, done, total, time.monotonic()
        self.spoken = self.started
        if self.style == "bar":
            name, note = "{task.description}", "{task.fields[note]}"
            done_of = TextColumn("{task.completed:,.0f}/{task.total:,.0f}")
            columns = (name, BarColumn(), done_of, note, TimeRemainingColumn())
            self.progress = Progress(*columns, console=self.console, transient=False)
            self.task = self.progress.add_task(activity, total=total, completed=done, note="")
            self.progress.start()

    def update(self, done: int, note: str = "") -> None:
        if self.progress is not None:
            self.progress.update(self.task, completed=done, note=f"{note} {self.rate(done):.1f}/s")
        elif self.style == "lines" and (time.monotonic() - self.spoken > LINE_SECONDS or done == self.total):
            self.spoken = time.monotonic()
            left = (self.total - done) / max(self.rate(done), 1e-9)
            self.say(f"{self.activity} {done:,}/{self.total:,}  {note}  {self.rate(done):.1f}/s  {left:.0f} s left")

    def rate(self, done: int) -> float:
        return (done - self.first) / max(time.monotonic() - self.started, 1e-9)

    def stop(self) -> None:
        """End the bar, which stays visible."""
        if self.progress is not None:
            self.progress.stop()
            self.progress = None
