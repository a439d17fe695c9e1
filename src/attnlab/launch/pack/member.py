"""Members of a pack: runs that are trained together, each with its own folder, metrics, callbacks and end."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytorch_lightning as pl

from attnlab.launch.device_errors import needs_less_at_once
from attnlab.launch.pack.pending_run import PendingRun
from attnlab.learn.reporter import Reporter
from attnlab.learn.training_module import TrainingModule
from attnlab.run.fit import TrainingOver, batch_order, own_callbacks
from attnlab.run.read_checkpoints import network_weights
from attnlab.run.run_context import RunContext


class SharedTime:
    """Clock of the runs of a pack: each run has an equal share of the time."""

    def __init__(self) -> None:
        self.seconds, self.seen = 0.0, time.monotonic()

    def __call__(self) -> float:
        """Seconds of a run that was trained from the start until now."""
        return self.seconds

    def pass_on(self, sharing: int) -> None:
        """Divide the time since the last call among a number of runs."""
        now = time.monotonic()
        self.seconds, self.seen = self.seconds + (now - self.seen) / max(sharing, 1), now


class PackMember:
    """A run that is trained together with others.

    Args:
        pending: its configuration and exit code.
        run: the run, opened.
        clock: seconds of training of a run of the pack.

    Attributes:
        error: the reason why it stopped while the others continue, or None.
    """

    def __init__(self, pending: PendingRun, run: RunContext, clock: SharedTime) -> None:
        self.pending, self.run = pending, run
        self.error: Exception | None = None
        self.module = TrainingModule(run.config, run.network, run.prepared.spec)
        self.order = batch_order(run.config, run.prepared)
        self.callbacks = own_callbacks(run, self.order, clock)

    @property
    def active(self) -> bool:
        """Whether the run is still trained."""
        return self.error is None

    def restore(self, saved: dict[str, Any]) -> None:
        """Load weights and states of callbacks from a checkpoint."""
        self.run.network.load_state_dict(network_weights(saved))
        for callback in self.callbacks:
            if callback.state_key in saved["callbacks"]:
                callback.load_state_dict(saved["callbacks"][callback.state_key])

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """An error in this block ends this run only; a signal, or too much data at once, ends all runs."""
        try:
            yield
        except Exception as error:
            if needs_less_at_once(error):
                raise
            self.error = error


class MemberReporter(Reporter):
    """Prints the lines of a run, with its name in front, through the reporter of the pack."""

    def __init__(self, pack: Reporter, name: str) -> None:
        self.pack, self.name = pack, name

    def say(self, text: str) -> None:
        self.pack.say(f"{self.name}: {text}")

    def start(self, what: str, total: int, done: int = 0) -> None:
        self.pack.start(f"{self.name}: {what}", total, done)

    def update(self, done: int, note: str = "") -> None:
        self.pack.update(done, note)

    def stop(self) -> None:
        self.pack.stop()


class ForMembers(pl.Callback):
    """Calls the callbacks of every run that is still trained; ends training when there is no such run.

    Args:
        members: the runs.
        pass_time: called after each batch with the number of runs that share its time.
    """

    def __init__(self, members: list[PackMember], pass_time: Callable[[int], None]) -> None:
        self.members, self.pass_time = members, pass_time

    def _each(self, hook: str, trainer: pl.Trainer, *args: Any) -> None:
        for member in self.members:
            if member.active:
                with member.guarded():
                    for callback in member.callbacks:
                        getattr(callback, hook)(trainer, member.module, *args)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # time before training counts for no run
        self.pass_time(1)
        for member in self.members:
            member.module.trainer = trainer
        self._each("on_train_start", trainer)

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *args: Any) -> None:
        self._each("on_train_batch_start", trainer, *args)

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *args: Any) -> None:
        self._each("on_train_batch_end", trainer, *args)
        self.pass_time(sum(member.active for member in self.members))
        if not any(member.active for member in self.members):
            raise TrainingOver

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._each("on_train_end", trainer)
