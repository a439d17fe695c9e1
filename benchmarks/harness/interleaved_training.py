"""Trainings by the real `pl.Trainer` in separate processes that take turns."""

import multiprocessing
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

import pytorch_lightning as pl
import torch

from attnlab.data.batch import Batch
from attnlab.learn.devices import memory_use
from attnlab.learn.lightning_trainer import make_trainer
from attnlab.learn.train_stream import train_loader
from attnlab.learn.training_module import TrainingModule
from benchmarks.harness.peak_memory import process_peak
from benchmarks.harness.timing import settle
from benchmarks.harness.workload import Workload, make_workload

WARM_UP_STEPS = 3


@dataclass(frozen=True)
class Job:
    """Job of a process: a task and a model on a device, with overrides; a turn has `steps` training steps."""

    task: str
    model: str
    overrides: Sequence[str]
    steps: int
    device: torch.device


@dataclass(frozen=True)
class Turn:
    """Measurements of one turn: seconds, seconds spent waiting for the data loader, real tokens and positions; and the
    peak memory of the process so far.
    """

    peak_bytes: int
    seconds: float
    waited: float
    real: int
    positions: int


class Stream:
    """Batches of a loader, with the time they took to arrive and their sizes.

    The seconds are those of this process: on a GPU they may pass while it still computes earlier steps.
    """

    def __init__(self, workload: Workload, loader: Iterable[Batch]) -> None:
        self.workload, self.loader = workload, loader
        self.waited = 0.0
        self.batches: list[Batch] = []

    def __iter__(self) -> Iterator[Batch]:
        batches = iter(self.loader)
        while True:
            begun = time.perf_counter()
            batch = next(batches)
            self.waited += time.perf_counter() - begun
            # Counted after the turn: reading lengths from a GPU would make it wait.
            self.batches.append(batch)
            yield batch

    def taken(self) -> tuple[float, int, int]:
        """Returns seconds, real tokens and positions since the last call."""
        counts = [self.workload.positions(batch) for batch in self.batches]
        result = self.waited, sum(real for real, _ in counts), sum(positions for _, positions in counts)
        self.waited, self.batches = 0.0, []
        return result


class Turns(pl.Callback):
    """Waits for its turn before a step, reports the turn, and stops the training when told to.

    A turn lasts from the start of its first step to the start of the step after its last: loading counts.
    """

    def __init__(self, line: Connection, job: Job, stream: Stream) -> None:
        self.line, self.job, self.stream = line, job, stream
        self.compiled = stream.workload.config.trainer.compile
        self.left, self.started = WARM_UP_STEPS, time.perf_counter()

    def on_train_batch_start(self, trainer: pl.Trainer, *args: object) -> None:
        if self.left == 0:
            settle()
            peak = process_peak(self.job.device, self.compiled)
            self.line.send(Turn(peak, time.perf_counter() - self.started, *self.stream.taken()))
            threads = self.line.recv()
            if threads == 0:
                self.line.send(peak)
                trainer.should_stop = True
            else:
                torch.set_num_threads(threads)
            self.left, self.started = self.job.steps, time.perf_counter()
        self.left -= 1


def train(line: Connection, job: Job, threads: int) -> None:
    """Trains one model in a process, a turn at a time."""
    torch.set_num_threads(threads)
    workload = make_workload(job.task, job.model, job.overrides, job.device)
    memory_use.reset_peak_memory(job.device)
    endless = replace(workload.config, train=replace(workload.config.train, max_steps=-1))
    options, examples = workload.config.trainer, workload.prepared.subsets["train"]
    pin = job.device.type == "cuda"
    stream = Stream(workload, train_loader(examples, workload.order, 0, options.workers, pin, options.compile))
    trainer = make_trainer(endless, job.device, [Turns(line, job, stream)])
    trainer.fit(TrainingModule(workload.config, workload.network, workload.prepared.spec), stream)


class Contestant:
    """Process of one model, controlled from the main process."""

    def __init__(self, job: Job, threads: int) -> None:
        processes = multiprocessing.get_context("spawn")
        self.job, self.threads = job, threads
        self.line, theirs = processes.Pipe()
        self.process = processes.Process(target=train, args=(theirs, job, threads), daemon=True)
        self.process.start()
        # From here on only the child holds its end, so the death of the child is an error here, not an endless wait.
        theirs.close()

    def warm(self) -> None:
        """Waits until the process is ready for its first turn."""
        self._hear()

    def start(self, threads: int | None = None) -> None:
        """Begins a turn, with another number of threads if given."""
        self.line.send(threads or self.threads)

    def finish(self) -> Turn:
        """Waits for the end of the turn."""
        return self._hear()

    def turn(self) -> Turn:
        self.start()
        return self.finish()

    def stop(self) -> int:
        """Ends the training; returns the peak memory of its process in bytes."""
        self.line.send(0)
        peak = self._hear()
        self.process.join()
        return peak

    def _hear(self) -> Any:
        try:
            return self.line.recv()
        except EOFError:
            name = " ".join([self.job.task, self.job.model, *self.job.overrides])
            raise RuntimeError(f"the process of {name} has ended; its error stands above") from None
