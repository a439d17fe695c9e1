"""One of the runs that are trained together: its own folder, metrics, weights, callbacks and end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytorch_lightning as pl
import torch

from attnlab.learn.callbacks import Clock
from attnlab.learn.training_module import NonFiniteLoss, TrainingModule
from attnlab.learn.training_progress import Reporter
from attnlab.run.fit import batch_order, own_callbacks
from attnlab.run.read_checkpoints import network_weights
from attnlab.run.run_lifecycle import Session


class Member:
    """A run in a pack.

    Args:
        session: the run, opened.
        seconds: the clock of its share of the pack's time.

    Attributes:
        error: why it stopped while the others went on, or None.
    """

    def __init__(self, session: Session, seconds: Callable[[], float]) -> None:
        self.session, self.run = session, session.run
        self.error: Exception | None = None
        self.module = TrainingModule(self.run.config, self.run.network, self.run.prepared.spec)
        self.order = batch_order(self.run.config, self.run.prepared)
        own = own_callbacks(self.run, session.sinks, session.evaluator, self.order)
        self.callbacks: list[pl.Callback] = [Clock(seconds), *own]

    @property
    def lives(self) -> bool:
        return self.error is None

    def restore(self, saved: dict[str, Any]) -> None:
        """Weights and callbacks as they were in a checkpoint."""
        self.run.network.load_state_dict(network_weights(saved))
        for callback in self.callbacks:
            if callback.state_key in saved["callbacks"]:
                callback.load_state_dict(saved["callbacks"][callback.state_key])

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """An error in this block ends this run only; a signal, or a lack of memory, is everyone's."""
        try:
            yield
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            self.error = error


class MemberReporter(Reporter):
    """What a run says, with its name before it, by the reporter of the pack."""

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
    """Passes what happens in training to the callbacks of every run that lives; leaves training when none does.

    Args:
        members: the runs.
        pass_time: called after each step with the number of runs that share its time.
    """

    def __init__(self, members: list[Member], pass_time: Callable[[int], None]) -> None:
        self.members, self.pass_time = members, pass_time

    def _each(self, hook: str, trainer: pl.Trainer, *args: Any) -> None:
        for member in self.members:
            if member.lives:
                with member.guarded():
                    for callback in member.callbacks:
                        getattr(callback, hook)(trainer, member.module, *args)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # what came before belongs to no run's training
        self.pass_time(1)
        for member in self.members:
            member.module.trainer = trainer
        self._each("on_train_start", trainer)

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *args: Any) -> None:
        self._each("on_train_batch_start", trainer, *args)

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *args: Any) -> None:
        self._each("on_train_batch_end", trainer, *args)
        self.pass_time(sum(member.lives for member in self.members))
        if not any(member.lives for member in self.members):
            raise NonFiniteLoss("no run of the pack is left")

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._each("on_train_end", trainer)
