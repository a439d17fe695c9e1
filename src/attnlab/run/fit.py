"""Training proper: Lightning's Trainer with our callbacks, from step 0 or from a checkpoint."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

from attnlab.config.schema import Config
from attnlab.data.batch_order import BatchOrder, Order
from attnlab.data.length_buckets import padding_share
from attnlab.learn import callbacks
from attnlab.learn.evaluator import Evaluator
from attnlab.learn.feature_redraw import Redraw, redrawn_modules
from attnlab.learn.lightning_trainer import make_trainer
from attnlab.learn.stop_signals import Stopped, StopRequest
from attnlab.learn.train_stream import train_loader
from attnlab.learn.training_module import TrainingModule
from attnlab.learn.training_progress import TrainProgress
from attnlab.learn.validation import Validation
from attnlab.run.figure_callback import Figures, PictureSink
from attnlab.run.run_context import RunContext
from attnlab.tasks.base import Prepared


class Listen(pl.Callback):
    """Our signal handlers while training (Lightning installs its own when it starts); stops wait for a step's end."""

    def __init__(self, stop: StopRequest) -> None:
        self.stop = stop

    def on_train_start(self, *args: Any) -> None:
        self.stop.install()
        self.stop.deferred = True


def batch_order(config: Config, prepared: Prepared) -> BatchOrder:
    """The order of training batches, from groups, lengths, batch size and seed.

    Raises:
        DataError: an example does not fit into `train.batch_tokens`.
    """
    train = config.train
    by_length = train.bucket_window is not None or train.batch_tokens is not None
    return BatchOrder(
        prepared.train_groups,
        train.batch_size,
        config.seed,
        extents=prepared.subsets["train"].extents() if by_length else None,
        window=train.bucket_window,
        tokens=train.batch_tokens,
    )


def train_padding(config: Config, prepared: Prepared) -> float | None:
    """Share of padding in the first training batches as they are computed; None for pictures."""
    return padding_share(
        batch_order(config, prepared),
        prepared.subsets["train"],
        max_tokens=config.train.max_tokens,
        rounded=rounds_lengths(config),
    )


def rounds_lengths(config: Config) -> bool:
    """Whether batches are padded up to a few lengths: each new shape of a compiled step is compiled anew."""
    return config.trainer.compile


def with_steps(config: Config, prepared: Prepared) -> Config:
    """The configuration with `train.max_steps` filled in from `train.max_epochs` where it is null."""
    train = config.train
    if train.max_steps is not None:
        return config
    steps = batch_order(config, prepared).batches_in(train.max_epochs) // train.accumulate
    return replace(config, train=replace(train, max_steps=max(steps, 1)))


def fit(run: RunContext, sink: PictureSink, evaluator: Evaluator, step: int) -> None:
    """Train until the last step; afterwards `last.ckpt` holds it.

    Args:
        run: what is trained.
        sink: takes metrics and pictures.
        evaluator: evaluates validation sets and opt-in test curves.
        step: optimiser steps already done, as in `last.ckpt`; 0 = begin.

    Raises:
        Stopped: a signal asked for it; the state is saved.
        NonFiniteLoss: the last checkpoint is from before.
    """
    config = run.config
    order = batch_order(config, run.prepared)
    loader = make_loader(config, run.prepared, order, step, run.device, run.reporter.say)
    trainer = make_trainer(config, run.device, _callbacks(run, sink, evaluator, order), say=run.reporter.say)
    module = TrainingModule(config, run.network, run.prepared.spec)
    say_what_is_compiled(config, run.reporter.say)
    try:
        trainer.fit(module, loader, ckpt_path=str(run.folder.checkpoint) if step else None, weights_only=True)
    finally:
        # Lightning calls no teardown of callbacks when training ends by an exception.
        run.stop.deferred = False
        run.reporter.stop()
    if (signum := run.stop.pending()) is not None:
        raise Stopped(signum)


def make_loader(
    config: Config,
    prepared: Prepared,
    order: Order,
    step: int,
    device: torch.device,
    say: Callable[[str], None] = lambda text: None,
) -> DataLoader:
    """Training batches from a step on.

    Args:
        order: of the batches of one run, or of several one after another.
        say: told what is not used.
    """
    examples, workers = prepared.subsets["train"], config.trainer.workers
    if examples.store is not None and workers:
        say(f"note: trainer.workers={workers} is not used: the data is on the device")
    return train_loader(
        examples,
        order,
        first=step * config.train.accumulate,
        workers=workers,
        pin=device.type == "cuda",
        round_lengths=rounds_lengths(config),
    )


def say_what_is_compiled(config: Config, say: Callable[[str], None]) -> None:
    """Why the first step takes long, where it does."""
    if not config.trainer.compile:
        return
    say("compiling the training step: the first one takes about a minute, and so does the first of every new length")
    if (limit := config.train.max_tokens) is not None:
        say(f"note: batches above train.max_tokens={limit} go in pieces of many lengths, which are not compiled")


def _callbacks(run: RunContext, sink: PictureSink, evaluator: Evaluator, order: BatchOrder) -> list[pl.Callback]:
    """In the order in which they act; the checkpoint is last, so that it holds what the others did at its step."""
    train, own = run.config.train, own_callbacks(run, sink, evaluator, order)
    save = callbacks.Checkpoint(
        run.folder.checkpoint,
        train.checkpoint_every,
        train.max_steps,
        run.stop.pending,
        lambda step: after_saving(run, own, step),
        run.identity,
    )
    return [
        Listen(run.stop),
        callbacks.RandomState(),
        callbacks.Clock(time.monotonic),
        TrainProgress(run.reporter, train.max_steps),
        *own,
        save,
    ]


def after_saving(run: RunContext, own: Sequence[pl.Callback], step: int) -> None:
    """What a checkpoint in place allows: its step in the status, and the end of weights that it names no more."""
    run.folder.set_status("running", step=step)
    for callback in own:
        if isinstance(callback, Validation):
            callback.drop_former()


def own_callbacks(run: RunContext, sink: PictureSink, evaluator: Evaluator, order: BatchOrder) -> list[pl.Callback]:
    """What belongs to a run even where others are trained beside it, in the order in which it acts."""
    train = run.config.train
    chosen: list[pl.Callback] = [callbacks.TrainMetrics(sink, train.log_every, train.max_steps)]
    if redrawn_modules(run.network):
        chosen.append(Redraw(run.config.seed))
    if train.validate_every is not None:
        every = order.batches_per_epoch // train.accumulate if train.validate_every == "epoch" else train.validate_every
        groups = tuple(run.prepared.subsets["val"].groups) if train.paper_rule else ()
        measure = lambda: evaluator.subset("val")[0]  # noqa: E731
        folder = run.folder.path
        given = (train.max_steps, measure, evaluator.metric, folder, run.identity, groups)
        chosen.append(Validation(sink, max(every, 1), *given))
    if train.test_curve_every is not None:
        chosen.append(callbacks.Curve(sink, train.test_curve_every, lambda: _curve_metrics(evaluator)))
    if run.config.logger.figures_every is not None:
        data = (run.task, run.prepared)
        chosen.append(Figures(run.folder.path, run.config, data, run.reporter.say, sink.pictures))
    return chosen


def _curve_metrics(evaluator: Evaluator) -> Mapping[str, float]:
    """Test metrics named by their subset alone: `ood/sequence_accuracy`."""
    return {name.removeprefix("test/"): value for name, value in evaluator.test_subsets().metrics.items()}
