"""Training proper: Lightning's Trainer with our callbacks, from step 0 or from a checkpoint."""

import logging
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytorch_lightning as pl
import torch

from attnlab.config.schema import Config
from attnlab.data.order import BatchOrder
from attnlab.learn import callbacks
from attnlab.learn.module import LabModule
from attnlab.learn.progress import TrainProgress
from attnlab.learn.redraw import Redraw, redrawn_modules
from attnlab.run.figures import Figures, PictureSink
from attnlab.run.resume import train_loader
from attnlab.run.run import Run
from attnlab.run.signals import StopRequest
from attnlab.run.testing import Tester
from attnlab.tasks.base import Prepared


class Listen(pl.Callback):
    """Our signal handlers while training (Lightning installs its own when it starts); stops wait for a step's end."""

    def __init__(self, stop: StopRequest) -> None:
        self.stop = stop

    def on_train_start(self, *args: Any) -> None:
        self.stop.install()
        self.stop.deferred = True


def batch_order(config: Config, prepared: Prepared) -> BatchOrder:
    """The order of training batches, from groups, batch size and seed."""
    return BatchOrder(prepared.train_groups, config.train.batch_size, config.seed)


def with_steps(config: Config, prepared: Prepared) -> Config:
    """The configuration with `train.max_steps` filled in from `train.max_epochs` where it is null."""
    train = config.train
    if train.max_steps is not None:
        return config
    steps = train.max_epochs * batch_order(config, prepared).batches_per_epoch // train.accumulate
    return replace(config, train=replace(train, max_steps=max(steps, 1)))


def fit(run: Run, sink: PictureSink, tester: Tester, step: int) -> None:
    """Train until the last step; afterwards `last.ckpt` holds it.

    Args:
        run: what is trained.
        sink: takes metrics and pictures.
        tester: evaluates validation sets and opt-in test curves.
        step: optimiser steps already done, as in `last.ckpt`; 0 = begin.

    Raises:
        Stopped: a signal asked for it; the state is saved.
        NonFiniteLoss: the last checkpoint is from before.
    """
    config = run.config
    order = batch_order(config, run.prepared)
    loader = train_loader(
        run.prepared.subsets["train"],
        order,
        first=step * config.train.accumulate,
        workers=config.trainer.workers,
        pin=run.device.type == "cuda",
    )
    trainer = make_trainer(config, run.device, _callbacks(run, sink, tester, order))
    module = LabModule(config, run.network, run.prepared.spec)
    try:
        trainer.fit(module, loader, ckpt_path=str(run.folder.checkpoint) if step else None, weights_only=True)
    finally:
        # Lightning calls no teardown of callbacks when training ends by an exception.
        run.stop.deferred = False
        run.reporter.stop()
    if (signum := run.stop.pending()) is not None:
        raise callbacks.Stopped(signum)


def make_trainer(config: Config, device: torch.device, callbacks: Sequence[pl.Callback], **more: Any) -> pl.Trainer:
    """Lightning's loop with nothing of its own beside it."""
    return pl.Trainer(
        accelerator="gpu" if device.type == "cuda" else "cpu",
        devices=1,
        precision=config.train.precision,
        max_steps=config.train.max_steps,
        max_epochs=-1,
        accumulate_grad_batches=config.train.accumulate,
        callbacks=list(callbacks),
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **more,
    )


def quiet_lightning() -> None:
    """Lightning's advice is about loops we do not use (loader workers, loggers); errors still come through."""
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"pytorch_lightning|lightning_fabric|torch\.optim\.lr_scheduler")


def _callbacks(run: Run, sink: PictureSink, tester: Tester, order: BatchOrder) -> list[pl.Callback]:
    """In the order in which they act; the checkpoint is last, so that it holds what the others did at its step."""
    train = run.config.train
    save = callbacks.Checkpoint(
        run.folder.checkpoint,
        train.checkpoint_every,
        train.max_steps,
        run.stop.pending,
        lambda step: run.folder.set_status("running", step=step),
    )
    return [
        Listen(run.stop),
        callbacks.RandomState(),
        callbacks.Clock(time.monotonic),
        TrainProgress(run.reporter, train.max_steps),
        *own_callbacks(run, sink, tester, order),
        save,
    ]


def own_callbacks(run: Run, sink: PictureSink, tester: Tester, order: BatchOrder) -> list[pl.Callback]:
    """What belongs to a run even where others are trained beside it, in the order in which it acts."""
    train = run.config.train
    chosen: list[pl.Callback] = [callbacks.TrainMetrics(sink, train.log_every, train.max_steps)]
    if redrawn_modules(run.network):
        chosen.append(Redraw(run.config.seed))
    if train.validate_every is not None:
        every = order.batches_per_epoch // train.accumulate if train.validate_every == "epoch" else train.validate_every
        groups = tuple(run.prepared.subsets["val"].groups) if train.paper_rule else ()
        measure = lambda: tester.subset("val")[0]  # noqa: E731
        folder = run.folder.path
        chosen.append(
            callbacks.Validation(sink, max(every, 1), train.max_steps, measure, tester.metric, folder, groups)
        )
    if train.test_curve_every is not None:
        chosen.append(callbacks.Curve(sink, train.test_curve_every, lambda: _curve_metrics(tester)))
    if run.config.logger.figures_every is not None:
        chosen.append(Figures(run, sink.pictures))
    return chosen


def _curve_metrics(tester: Tester) -> Mapping[str, float]:
    """Test metrics named by their subset alone: `ood/sequence_accuracy`."""
    return {name.removeprefix("test/"): value for name, value in tester.test_subsets().metrics.items()}
