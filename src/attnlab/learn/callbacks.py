"""What happens beside a training step: metrics, validation, checkpoints, random states, stopping.

Order matters and is fixed in `run/fit.py`: metrics and validation come before the checkpoint, so that a checkpoint
holds all that was recorded up to its step, and a resumed run repeats what came after it.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning import Callback

from attnlab.learn.atomic_write import IDENTITY, save_atomically
from attnlab.learn.stop_signals import Stopped
from attnlab.learn.training_module import TrainingModule

Metrics = dict[str, float]


@runtime_checkable
class MetricsSink(Protocol):
    """Where metrics go."""

    def log(self, step: int, metrics: Metrics) -> None: ...


class StepCallback(Callback, ABC):
    """Calls `on_step` once after each optimiser step, not after each accumulated batch."""

    _last_step: int | None = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._last_step = trainer.global_step

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *args: Any) -> None:
        if trainer.global_step != self._last_step:
            self._last_step = trainer.global_step
            self.on_step(trainer, pl_module, trainer.global_step)

    @abstractmethod
    def on_step(self, trainer: pl.Trainer, module: pl.LightningModule, step: int) -> None:
        """What to do after optimiser step number `step`, counted from 1."""


class RandomState(Callback):
    """Random states in the checkpoint, as plain types (it is loaded with weights_only=True).

    They are put back before the first training step after a resume, not earlier: making the loader draws from them.
    """

    def __init__(self) -> None:
        self._loaded: dict[str, Any] | None = None

    def state_dict(self) -> dict[str, Any]:
        kind, keys, place, has_gauss, gauss = np.random.get_state()
        return {
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [],
            "numpy": [kind, keys.tolist(), place, has_gauss, gauss],
            "python": random.getstate(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._loaded = state_dict

    def on_train_batch_start(self, *args: Any) -> None:
        if self._loaded is None:
            return
        state, self._loaded = self._loaded, None
        torch.set_rng_state(state["torch"])
        if state["cuda"] and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(state["cuda"])
        kind, keys, *rest = state["numpy"]
        np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
        version, words, gauss = state["python"]
        random.setstate((version, tuple(words), gauss))


class TrainMetrics(StepCallback):
    """Logs the module's latest metrics every `every` steps and at the last one."""

    def __init__(self, sink: MetricsSink, every: int, max_steps: int) -> None:
        self.sink, self.every, self.max_steps = sink, every, max_steps

    def on_step(self, trainer: pl.Trainer, module: TrainingModule, step: int) -> None:
        if step % self.every == 0 or step == self.max_steps:
            self.sink.log(step, {name: float(value) for name, value in module.latest.items()})


class Curve(StepCallback):
    """Opt-in: the test subsets every so many steps, logged as test_curve/..., never used to select anything."""

    def __init__(self, sink: MetricsSink, every: int, measure: Callable[[], Metrics]) -> None:
        self.sink, self.every, self.measure = sink, every, measure

    def on_step(self, trainer: pl.Trainer, module: TrainingModule, step: int) -> None:
        if step % self.every == 0:
            self.sink.log(step, {f"test_curve/{name}": value for name, value in self.measure().items()})


class Saving(StepCallback):
    """Saves every `every` steps, at the last step, and when asked to stop; then raises `Stopped`.

    Args:
        stop_signal: the number of a signal that asks to stop, or None.
    """

    def __init__(self, every: int, max_steps: int, stop_signal: Callable[[], int | None]) -> None:
        self.every, self.max_steps, self.stop_signal = every, max_steps, stop_signal

    def on_step(self, trainer: pl.Trainer, module: pl.LightningModule, step: int) -> None:
        signum = self.stop_signal()
        if step % self.every == 0 or step == self.max_steps or signum is not None:
            self.save(trainer, module, step)
        if signum is not None:
            raise Stopped(signum)

    @abstractmethod
    def save(self, trainer: pl.Trainer, module: pl.LightningModule, step: int) -> None:
        """Save the state after a step, unless its weights are not finite."""


class Checkpoint(Saving):
    """Saves a run to `path`.

    Args:
        every, max_steps, stop_signal: as in Saving.
        on_saved: told the step of each checkpoint.
        identity: of the run (`config.naming.identity`), so that its checkpoint is no other one's.
    """

    def __init__(
        self,
        path: Path,
        every: int,
        max_steps: int,
        stop_signal: Callable[[], int | None],
        on_saved: Callable[[int], None],
        identity: dict[str, Any],
    ) -> None:
        super().__init__(every, max_steps, stop_signal)
        self.path, self.on_saved, self.identity = path, on_saved, identity

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        checkpoint[IDENTITY] = self.identity

    def save(self, trainer: pl.Trainer, module: TrainingModule, step: int) -> None:
        module.require_finite_weights()
        save_atomically(trainer.save_checkpoint, self.path)
        self.on_saved(step)


class Clock(Callback):
    """Seconds spent in training over all parts of a resumed run; kept in the checkpoint, no part of any metric."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now, self.before, self.started = now, 0.0, None

    @property
    def seconds(self) -> float:
        return self.before + (0.0 if self.started is None else self.now() - self.started)

    def on_train_start(self, trainer: pl.Trainer, pl_module: TrainingModule) -> None:
        self.started = self.now()

    def on_train_end(self, trainer: pl.Trainer, pl_module: TrainingModule) -> None:
        self.before, self.started = self.seconds, None

    def state_dict(self) -> dict[str, float]:
        return {"seconds": self.seconds}

    def load_state_dict(self, state_dict: dict[str, float]) -> None:
        self.before = state_dict["seconds"]
