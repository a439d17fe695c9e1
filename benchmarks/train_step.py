"""One training step of several models on one task, at the task's own sizes, and the peak memory of each.

Every model trains in a process of its own with the real `pl.Trainer`, `LabModule` and data loader (batch, forward,
loss, backward, finite check, clipping, Adam; no metrics, no checkpoints), on the same batches in the same order. The
processes take turns: all but one wait, so the models are measured A B A B ... and ratios are taken turn by turn. Peak
memory is the process's own. It includes Python, torch and the data.

    python -m benchmarks.train_step --task scan --models vanilla,linear
    python -m benchmarks.train_step --task sort_of_clevr --seconds 60 backbone.d_model=128
"""

import multiprocessing
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection

import pytorch_lightning as pl
import torch

from attnlab.learn.module import LabModule
from attnlab.run.resume import train_loader
from benchmarks.lab import make_lab
from benchmarks.tables import show
from benchmarks.timing import Timings, begin, parser, peak_memory_bytes, progress

WARM_UP_STEPS = 3
MODELS = "linear_l2,vanilla,linear,linear_l2_ortho"


class Turns(pl.Callback):
    """Waits for its turn before a step, times the steps of the turn, and stops the training when told to.

    A turn lasts from the start of its first step to the start of the step after its last: loading counts.
    """

    def __init__(self, line: Connection, steps: int) -> None:
        self.line, self.steps = line, steps
        self.left, self.started = WARM_UP_STEPS, time.perf_counter()

    def on_train_batch_start(self, trainer: pl.Trainer, *args: object) -> None:
        if self.left == 0:
            self.line.send((time.perf_counter() - self.started) / self.steps)
            if not self.line.recv():
                self.line.send(peak_memory_bytes())
                trainer.should_stop = True
            self.left, self.started = self.steps, time.perf_counter()
        self.left -= 1


def train(line: Connection, task: str, model: str, overrides: Sequence[str], steps: int, threads: int) -> None:
    """Body of a process: train one model, a turn at a time."""
    torch.set_num_threads(threads)
    lab = make_lab(task, model, overrides)
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=1,
        precision=lab.config.train.precision,
        max_steps=-1,
        max_epochs=-1,
        accumulate_grad_batches=lab.config.train.accumulate,
        callbacks=[Turns(line, steps)],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    loader = train_loader(lab.prepared.subsets["train"], lab.order, 0, workers=0)
    trainer.fit(LabModule(lab.config, lab.network, lab.prepared.spec), loader)


class Contestant:
    """The process of one model, seen from the referee."""

    def __init__(self, *job: object) -> None:
        processes = multiprocessing.get_context("spawn")
        self.line, theirs = processes.Pipe()
        self.process = processes.Process(target=train, args=(theirs, *job), daemon=True)
        self.process.start()
        # Only the child holds its end from here on, so that its death is an error here and not a wait without end.
        theirs.close()

    def warm(self) -> None:
        """Wait until it is ready for its first turn."""
        self.line.recv()

    def turn(self) -> float:
        """Seconds a step over one turn."""
        self.line.send(True)
        return self.line.recv()

    def stop(self) -> int:
        """End the training; peak memory in bytes."""
        self.line.send(False)
        peak = self.line.recv()
        self.process.join()
        return peak


def compete(
    task: str, models: Sequence[str], overrides: Sequence[str], seconds: float, steps: int, threads: int
) -> tuple[Timings, dict[str, int]]:
    """Times of all models, turn by turn, and their peak memory."""
    progress(f"{task}: starting {', '.join(models)}")
    contestants = {model: Contestant(task, model, overrides, steps, threads) for model in models}
    for contestant in contestants.values():
        contestant.warm()
    found: dict[str, list[float]] = {model: [] for model in models}
    started, turns = time.perf_counter(), 0
    while turns < 5 or time.perf_counter() - started < seconds:
        for model, contestant in contestants.items():
            found[model].append(contestant.turn())
        turns += 1
        progress(f"{task}: turn {turns}, {time.perf_counter() - started:.0f} of {seconds:.0f} s")
    progress(None)
    return Timings(found), {model: contestant.stop() for model, contestant in contestants.items()}


def main() -> None:
    options = parser(__doc__, seconds=60)
    options.add_argument("--task", default="scan", help="scan, sort_of_clevr, ... (default: %(default)s)")
    options.add_argument("--models", default=MODELS, help="the first is the baseline (default: %(default)s)")
    options.add_argument("--steps", type=int, default=2, help="steps in one turn (default: %(default)s)")
    options.add_argument("overrides", nargs="*", metavar="key=value", help="settings, as for train.py")
    given = options.parse_args()
    models = given.models.split(",")
    place = begin(given.threads)
    times, memory = compete(given.task, models, given.overrides, given.seconds, given.steps, given.threads)
    rows = [
        {
            "model": model,
            "ms a step": 1000 * times.median(model),
            "steps/s": 1 / times.median(model),
            f"time / {models[0]}": times.ratio(model, models[0]),
            "middle half": times.quartiles(model, models[0]),
            "peak memory GB": memory[model] / 1e9,
            "turns": len(times.seconds[model]),
        }
        for model in models
    ]
    settings = f" ({' '.join(given.overrides)})" if given.overrides else ""
    show(f"train_step_{given.task}", f"Training step, {given.task}{settings}", rows, place)


if __name__ == "__main__":
    main()
