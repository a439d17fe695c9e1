"""Callbacks of training: metrics, progress, test curve, checkpoints, random states, redraws, training time.

`run/fit.py` fixes their order: metrics and validation come before the checkpoint, so that a checkpoint covers all
records up to its step, and a resumed run repeats the later ones.
"""

import math
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning import Callback
from torch import Tensor, nn

from attnlab.attention.base import Attention
from attnlab.learn.devices.process_group import ALONE, Ranks
from attnlab.learn.metric_units import LARGEST_OF, text
from attnlab.learn.reporter import Reporter
from attnlab.learn.stop_signals import Stopped
from attnlab.learn.training_module import TrainingModule
from attnlab.learn.weight_files import CHECKSUM, content_checksum, save_atomically

OTHER_RANKS = "other_ranks"
"""entry of the random states in a checkpoint: those of ranks 1, 2, ..."""

Metrics = dict[str, float]
Sink = Callable[[int, Metrics], None]
"""records the metrics of a step"""


class StepCallback(Callback, ABC):
    """Base class of callbacks that act after each optimiser step, which takes one batch of the loader."""

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *args: Any) -> None:
        # Lightning does not know which module a callback is for
        self.on_step(trainer, cast(TrainingModule, pl_module), trainer.global_step)

    @abstractmethod
    def on_step(self, trainer: pl.Trainer, module: TrainingModule, step: int) -> None:
        """Called after optimiser step number `step`, counted from 1."""


def random_states() -> dict[str, Any]:
    """Random states of torch, numpy, Python and the current GPU (`cuda`: one state or none), as plain types, since
    checkpoints are read with weights_only=True.
    """
    # numpy's types also have the form that only another argument gives
    state = cast(tuple[str, np.ndarray, int, int, float], np.random.get_state())
    kind, keys, position, has_gauss, gauss = state
    return {
        "torch": torch.get_rng_state(),
        "cuda": [torch.cuda.get_rng_state()] if torch.cuda.is_initialized() else [],
        "numpy": [kind, keys.tolist(), position, has_gauss, gauss],
        "python": random.getstate(),
    }


def restore_random_states(states: dict[str, Any]) -> None:
    """Puts random states back, the GPU's on the current one, and only where there is one.

    Earlier checkpoints list the states of all GPUs that were visible; a run used the first.
    """
    torch.set_rng_state(states["torch"])
    if states["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"][0])
    kind, keys, *rest = states["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
    version, words, gauss = states["python"]
    random.setstate((version, tuple(words), gauss))


@contextmanager
def preserved_rng() -> Iterator[None]:
    """Random states after the block are the same as before it, also after an exception."""
    # Lightning's isolate_rng leaves them changed after an exception, and always starts CUDA where there is a GPU.
    states = random_states()
    try:
        yield
    finally:
        restore_random_states(states)


class RandomState(Callback):
    """Keeps random states in the checkpoint, and restores them before the first training step after a resume, not
    earlier: making the loader draws random numbers.

    Of several processes each has random states of its own, since they draw for different rows. The checkpoint holds
    the states of rank 0 as those of a run in one process, and the others beside them. At the start, and after a resume
    with another number of processes, they come from seed, step and rank.
    """

    def __init__(self, ranks: Ranks = ALONE, seed: int = 0) -> None:
        self.ranks, self.seed = ranks, seed
        self._loaded: dict[str, Any] | None = None
        self._begun = False

    def state_dict(self) -> dict[str, Any]:
        first, *others = self.ranks.gather(random_states())
        return first | ({OTHER_RANKS: others} if others else {})

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._loaded = state_dict

    def on_train_batch_start(self, trainer: pl.Trainer, *args: Any) -> None:
        if self._begun:
            return
        self._begun = True
        states = [] if self._loaded is None else [self._loaded, *self._loaded.get(OTHER_RANKS, [])]
        if len(states) == self.ranks.world:
            restore_random_states(states[self.ranks.rank])
        elif states or self.ranks.world > 1:
            place = self.seed, trainer.global_step, self.ranks.rank
            first, second = np.random.SeedSequence(place).generate_state(2, np.uint64)
            random.seed(int(first))
            np.random.seed(int(first) % 2**32)
            torch.manual_seed(int(second))
        self._loaded = None


def redrawn_modules(network: nn.Module) -> list[Attention]:
    """The attentions with a `redraw_every`; a shared one occurs once."""
    attentions = [module for module in network.modules() if isinstance(module, Attention)]
    return [attention for attention in attentions if attention.redraw_every is not None]


def redraw(network: nn.Module, seed: int, step: int) -> None:
    """Redraw the modules that are due after optimiser step number `step`, counted from 1; by seed, step and number in
    the network alone, so that a resumed run draws the same.
    """
    for index, module in enumerate(redrawn_modules(network)):
        if module.redraw_every is not None and step % module.redraw_every == 0:
            [number] = np.random.SeedSequence((seed, step, index)).generate_state(1, np.uint64)
            module.redraw(torch.Generator().manual_seed(int(number)))


class Redraw(Callback):
    """Redraws random features and hashes before the first batch of a step, where the previous step makes it due; so
    validation, checkpoints and the final test use the features that the weights were trained with.
    """

    def __init__(self, network: nn.Module, seed: int) -> None:
        self.network, self.seed = network, seed
        self._done = 0

    def on_train_batch_start(self, trainer: pl.Trainer, *args: Any) -> None:
        step = trainer.global_step
        # A resumed run makes up for a redraw that was due.
        if step != self._done:
            self._done = step
            redraw(self.network, self.seed, step)


class TrainMetrics(StepCallback):
    """Logs the module's metrics every `every` steps and at the last step, and with them the largest value of each loss
    and norm over all steps since the row before (`train/gradient_norm_max`).

    The largest values stay on the device from row to row, so that no step waits for them, and are kept in checkpoints.
    A value that is not finite is left out: of such a step float16 makes no update, and other formats end the run.
    """

    def __init__(self, sink: Sink, every: int, max_steps: int) -> None:
        self.sink, self.every, self.max_steps = sink, every, max_steps
        self._largest: dict[str, Tensor] = {}

    def state_dict(self) -> dict[str, Any]:
        return {"largest": {name: float(value) for name, value in self._largest.items()}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        # in double precision, in which a number of any format is the same
        self._largest = {n: torch.tensor(v, dtype=torch.float64) for n, v in state_dict["largest"].items()}

    def on_step(self, trainer: pl.Trainer, module: TrainingModule, step: int) -> None:
        for name, value in module.metrics.items():
            if isinstance(value, Tensor):
                finite, former = value.nan_to_num(-math.inf, -math.inf), self._largest.get(f"{name}{LARGEST_OF}")
                newer = finite if former is None else torch.maximum(finite, former.to(finite))
                self._largest[f"{name}{LARGEST_OF}"] = newer
        if step % self.every == 0 or step == self.max_steps:
            largest = {name: float(value) for name, value in self._largest.items()}
            known = {name: value for name, value in largest.items() if value > -math.inf}
            self.sink(step, {name: float(value) for name, value in module.metrics.items()} | known)
            self._largest.clear()


class TrainProgress(StepCallback):
    """Shows step, loss (`train/loss` of the module's metrics), steps per second and time left."""

    # Reading the loss waits for the GPU, so it is not read at every step.
    REFRESH_SECONDS = 0.2

    def __init__(self, reporter: Reporter, max_steps: int) -> None:
        self.reporter, self.max_steps = reporter, max_steps
        self.shown = 0.0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.reporter.start("training", self.max_steps, trainer.global_step)

    def on_step(self, trainer: pl.Trainer, module: TrainingModule, step: int) -> None:
        if time.monotonic() - self.shown > self.REFRESH_SECONDS or step == self.max_steps:
            self.shown = time.monotonic()
            self.reporter.update(step, f"loss {text('train/loss', float(module.metrics['train/loss']))}")


class Curve(StepCallback):
    """Logs additional metrics (`measure`, by full names) every `every` steps; opt-in, and never used for selection."""

    def __init__(self, sink: Sink, every: int, measure: Callable[[], Metrics]) -> None:
        self.sink, self.every, self.measure = sink, every, measure

    def on_step(self, trainer: pl.Trainer, module: TrainingModule, step: int) -> None:
        if step % self.every == 0:
            self.sink(step, self.measure())


@dataclass(eq=False)
class Checkpoint(StepCallback):
    """Saves the checkpoint every `every` steps, at the last step, and after a stop signal; then raises `Stopped`.

    Args:
        stop_signal: returns the number of the stop signal that has come, or None.
        path: the file.
        on_saved: called with the step of each checkpoint.
        stamp: further entries: the run's identity, by which another run's checkpoint is recognised, and its code.
        ranks: the processes of the run: all take part in saving, since each has random states, and rank 0 writes.
    """

    every: int
    max_steps: int
    stop_signal: Callable[[], int | None]
    path: Path
    on_saved: Callable[[int], None]
    stamp: dict[str, Any]
    ranks: Ranks = ALONE

    def on_step(self, trainer: pl.Trainer, module: TrainingModule, step: int) -> None:
        signum = self.stop_signal()
        if step % self.every == 0 or step == self.max_steps or signum is not None:
            self._save(trainer, module, step)
        if signum is not None:
            raise Stopped(signum)

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        checkpoint.update(self.stamp)
        if self.ranks.is_first:
            checkpoint[CHECKSUM] = content_checksum(checkpoint)

    def _save(self, trainer: pl.Trainer, module: TrainingModule, step: int) -> None:
        module.require_finite_weights()
        if self.ranks.is_first:
            save_atomically(trainer.save_checkpoint, self.path)
            self.on_saved(step)
        else:
            trainer.save_checkpoint(self.path)


class Clock(StepCallback):
    """Training time in seconds, kept in the checkpoint so that it includes the time before a resume; not a metric.

    evaluations: seconds of the evaluations between steps (`timed`); the time of a step is without them.
    """

    FIRST_STEPS = 20
    """of each start, which take longer: they compile and plan"""

    def __init__(self) -> None:
        self.evaluations, self.before = 0.0, 0.0
        self.started: float | None = None
        self.first = 0
        self._settled = (0, 0.0)
        self._last: float | None = None

    @property
    def seconds(self) -> float:
        return self.before + (0.0 if self.started is None else time.monotonic() - self.started)

    @property
    def settled(self) -> tuple[int, float]:
        """Number of the steps after the first ones of each start, and their seconds without evaluations."""
        steps, seconds = self._settled
        return steps, seconds + (0.0 if self._last is None else self._training() - self._last)

    def timed(self, measure: Callable[[], Metrics]) -> Callable[[], Metrics]:
        """An evaluation whose seconds count."""

        def run() -> Metrics:
            before = time.monotonic()
            metrics = measure()
            self.evaluations += time.monotonic() - before
            return metrics

        return run

    def _training(self) -> float:
        return time.monotonic() - self.evaluations

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.started, self.first, self._last = time.monotonic(), trainer.global_step, None

    def on_step(self, trainer: pl.Trainer, module: TrainingModule, step: int) -> None:
        if step < self.first + self.FIRST_STEPS:
            return
        if self._last is not None:
            steps, seconds = self.settled
            self._settled = steps + 1, seconds
        self._last = self._training()

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._settled = self.settled
        self.before, self.started, self._last = self.seconds, None, None

    def state_dict(self) -> dict[str, Any]:
        return {"seconds": self.seconds, "settled": list(self.settled)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.before = state_dict["seconds"]
        steps, seconds = state_dict.get("settled", (0, 0.0))
        self._settled = steps, seconds
