"""Training of a run: Lightning's Trainer with our callbacks, from step 0 or from a checkpoint."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import LambdaCallback

from attnlab.analysis.attention_metrics import attention_metrics
from attnlab.config.schema import Config, piece_tokens, steps_of
from attnlab.data.batch_order import BatchOrder, Order, StepOrder
from attnlab.data.examples import Examples
from attnlab.data.length_padding import padding_share
from attnlab.kernels.compiled_step import compiler_failed
from attnlab.learn.callbacks import (
    Checkpoint,
    Clock,
    Curve,
    Metrics,
    RandomState,
    Redraw,
    TrainMetrics,
    TrainProgress,
    redrawn_modules,
)
from attnlab.learn.devices.device_choice import compile_notes
from attnlab.learn.evaluator import Evaluator
from attnlab.learn.lightning_trainer import make_trainer
from attnlab.learn.stop_signals import Stopped
from attnlab.learn.train_stream import train_loader
from attnlab.learn.training_module import TrainingModule
from attnlab.learn.validation import Validation
from attnlab.run.figure_callback import Figures
from attnlab.run.provenance import hardware
from attnlab.run.run_context import RunContext
from attnlab.tasks.base import Prepared


def batch_order(config: Config, prepared: Prepared[Examples]) -> BatchOrder:
    """The order of training batches; a DataError if an example does not fit into `train.batch_tokens`."""
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


def train_padding(config: Config, prepared: Prepared[Examples]) -> float | None:
    """Share of padding in the first training batches; None for pictures."""
    train, examples = config.train, prepared.subsets["train"]
    order = StepOrder(batch_order(config, prepared), train.accumulate)
    limits: dict[str, Any] = {"max_tokens": piece_tokens(train), "parts": train.accumulate}
    return padding_share(order, examples, **limits, rounded=config.trainer.compile)


def with_steps(config: Config, prepared: Prepared[Examples]) -> Config:
    """The configuration with `train.max_steps` computed from `train.max_epochs` if it is null."""
    train = config.train
    if train.max_steps is not None or train.max_epochs is None:
        return config
    steps = max(batch_order(config, prepared).batches_in(train.max_epochs) // train.accumulate, 1)
    return replace(config, train=replace(train, max_steps=steps))


def fit(run: RunContext) -> None:
    """Train until the last step; afterwards `last.ckpt` holds it.

    Raises:
        Stopped: a signal asked for it; the state is saved.
        NonFiniteLoss: the last checkpoint is from before.
    """
    order = batch_order(run.config, run.prepared)
    module = TrainingModule(run.config, run.network, run.prepared.spec, run.ranks)
    max_steps = steps_of(run.config.train)
    callbacks = attnlab_callbacks(run, order)
    save = Checkpoint(
        run.config.train.checkpoint_every,
        max_steps,
        lambda: common_stop(run),
        run.folder.checkpoint,
        lambda step: after_saving(run, callbacks, step),
        run.stamp,
        run.ranks,
    )
    # the checkpoint is last, since it saves the state of the others
    train(run, module, order, [TrainProgress(run.reporter, max_steps), *callbacks, save])


def common_stop(run: RunContext) -> int | None:
    """Number of a stop signal that a process of the run has got, the largest one; the same on all, after each step."""
    pending = run.stop.pending()
    signum = run.ranks.largest(pending or 0)
    if signum:
        run.stop.heed(signum)
    return signum or None


def train(run: RunContext, module: TrainingModule, order: Order, callbacks: Sequence[pl.Callback]) -> None:
    """Lightning's training loop, from step 0 or from the checkpoint of a run. Raises Stopped: as in `fit`."""
    config, say = run.config, run.reporter.say
    examples, workers = run.prepared.subsets["train"], config.trainer.workers
    if examples.store is not None and workers:
        say(f"note: trainer.workers={workers} is not used: the data is on the device")
    steps = StepOrder(order, config.train.accumulate)
    share, on_gpu = (run.ranks.rank, run.ranks.world), run.device.type == "cuda"
    loader = train_loader(examples, steps, run.step, workers, on_gpu, config.trainer.compile, share)
    # first, so that signals are handled again after Lightning has installed its own handlers
    listen = LambdaCallback(on_train_start=lambda *arguments: run.stop.defer())
    chosen = [listen, RandomState(run.ranks, config.seed), *callbacks]
    trainer = make_trainer(config, run.device, chosen, say, run.ranks)
    for note in compile_notes(config):
        say(note)
    try:
        path = str(run.folder.checkpoint) if run.step else None
        trainer.fit(module, loader, ckpt_path=path, weights_only=True)
    except Exception as error:
        # Ctrl-C ends the compiler too, if it runs.
        if run.stop.pending() is None or not compiler_failed(error):
            raise
    finally:
        # Lightning calls no teardown of callbacks when training ends by an exception.
        run.stop.deferred = False
        run.reporter.stop()
    if (signum := run.stop.pending()) is not None:
        raise Stopped(signum)


def after_saving(run: RunContext, callbacks: Sequence[pl.Callback], step: int) -> None:
    """After a checkpoint is written: record its step, time and hardware and the rows of metrics.csv up to it, and
    remove best weights that it does not name.
    """
    clock = next(callback for callback in callbacks if isinstance(callback, Clock))
    steps, seconds = clock.settled
    run.folder.set_status(
        "running",
        step=step,
        seconds=round(clock.seconds, 3),
        step_seconds=round(seconds / steps, 6) if steps else None,
        hardware=hardware(run.device) | {"processes": run.ranks.world},
        metrics_file=run.sinks.file.checksum(),
    )
    for callback in callbacks:
        if isinstance(callback, Validation):
            callback.drop_former()


def attnlab_callbacks(run: RunContext, order: BatchOrder) -> list[pl.Callback]:
    """Callbacks of a run but for its checkpoint, in the order in which they act."""
    config, options, evaluator = run.config, run.config.train, run.evaluator
    max_steps, clock = steps_of(options), Clock()
    chosen: list[pl.Callback] = [clock]
    if run.ranks.is_first:
        chosen.append(TrainMetrics(run.sinks.log, options.log_every, max_steps))
    if redrawn_modules(run.network):
        chosen.append(Redraw(run.network, config.seed))
    if (every := options.validate_every) is not None:
        if every == "epoch":
            every = max(order.batches_per_epoch // options.accumulate, 1)
        validation = Validation(
            run.sinks.log,
            every,
            max_steps,
            clock.timed(lambda: evaluator.subset("val")[0]),
            evaluator.metric,
            run.folder.path,
            run.stamp,
            tuple(run.prepared.subsets["val"].groups) if options.paper_rule else (),
            writes=run.ranks.is_first,
            say=run.reporter.say,
        )
        chosen.append(validation)
    if options.test_curve_every is not None:
        curve = clock.timed(lambda: _curve_metrics(evaluator))
        chosen.append(Curve(run.sinks.log, options.test_curve_every, curve))
    if options.diagnose_every is not None and run.ranks.is_first:
        diagnosis = clock.timed(lambda: diagnosed(evaluator))
        chosen.append(Curve(run.sinks.log, options.diagnose_every, diagnosis))
    if config.logger.figures_every is not None and run.ranks.is_first:
        data = (run.task, run.prepared)
        chosen.append(Figures(run.folder.path, config, data, run.reporter.say, run.sinks.pictures))
    return chosen


def _curve_metrics(evaluator: Evaluator) -> Metrics:
    """Test metrics as `test_curve/ood/sequence_accuracy`."""
    metrics = evaluator.test_subsets().metrics
    return {f"test_curve/{name.removeprefix('test/')}": value for name, value in metrics.items()}


def diagnosed(evaluator: Evaluator) -> Metrics:
    """Numbers of the attentions with the present weights, on validation data: `val/layer_0/key_norm`."""
    prepared = evaluator.prepared
    metrics = attention_metrics(evaluator.network, prepared.subsets["val"], prepared.spec, evaluator.train)
    return {f"val/{name}": value for name, value in metrics.items()}
