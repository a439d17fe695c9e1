"""Lightning's Trainer as runs and packs use it: the configuration alone decides what it does."""

import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.environments import LightningEnvironment

from attnlab.config.schema import Config


def quiet_lightning() -> None:
    """Lightning's advice is about loops we do not use (loader workers, loggers); errors still come through."""
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"pytorch_lightning|lightning_fabric|torch\.optim\.lr_scheduler")


def make_trainer(
    config: Config,
    device: torch.device,
    callbacks: Sequence[pl.Callback],
    plugins: Sequence[Any] = (),
    say: Callable[[str], None] = lambda text: None,
) -> pl.Trainer:
    """Lightning's loop with nothing of its own beside it."""
    with _without_variables(say):
        return pl.Trainer(
            # Under Slurm, Lightning would count the job's tasks and requeue it by itself on SIGUSR1.
            plugins=[LightningEnvironment(), *plugins],
            # There it also begins with any hpc_ckpt_*.ckpt of this folder, the current one by default; this one holds
            # none.
            default_root_dir=os.devnull,
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
        )


@contextmanager
def _without_variables(say: Callable[[str], None]) -> Iterator[None]:
    """Lightning takes what its Trainer is not given from `PL_TRAINER_*`, which no configuration shows."""
    there = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("PL_TRAINER_")}
    if there:
        say(f"note: not used: {', '.join(sorted(there))}; the configuration alone decides")
    try:
        yield
    finally:
        os.environ.update(there)
