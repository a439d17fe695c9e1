"""Lightning's Trainer, set up by the configuration alone, and its DDP for a run whose process group is open."""

import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.environments import LightningEnvironment
from pytorch_lightning.strategies import DDPStrategy

from attnlab.config.schema import Config, steps_of
from attnlab.learn.devices.process_group import ALONE, Ranks, cluster_environment


def quiet_lightning() -> None:
    """Silences Lightning's advice, which is about features that are not used here (loggers); errors are still shown."""
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"pytorch_lightning|lightning_fabric|torch\.optim\.lr_scheduler")


class RankStrategy(DDPStrategy):
    """DDP on the device of this process.

    Every parameter must have a gradient in every step (`TrainingModule` refuses others): with
    `find_unused_parameters` DDP would search the graph of each step. Buffers are not sent before each step: attentions
    redraw them from seed and step alone, so they are equal everywhere.
    """

    def __init__(self, ranks: Ranks, device: torch.device) -> None:
        super().__init__(
            # Lightning takes the entry of the local rank; a process may see its own GPU only.
            parallel_devices=[device] * ranks.layout.per_node,
            cluster_environment=cluster_environment(ranks.layout),
            find_unused_parameters=False,
            broadcast_buffers=False,
        )

    def _configure_launcher(self) -> None:
        """No launcher: all processes have begun, and it would set the number of CPU threads."""


def make_trainer(
    config: Config,
    device: torch.device,
    callbacks: Sequence[pl.Callback],
    say: Callable[[str], None] = lambda text: None,
    ranks: Ranks = ALONE,
) -> pl.Trainer:
    """A Trainer with these callbacks only: without Lightning's loggers, checkpoints and progress bars."""
    with _without_variables(say):
        return pl.Trainer(
            # Under Slurm, Lightning would check the job's number of tasks, and requeue the job on SIGUSR1.
            plugins=[LightningEnvironment()] if ranks.world == 1 else [],
            strategy="auto" if ranks.world == 1 else RankStrategy(ranks, device),
            num_nodes=ranks.layout.nodes,
            # the batches are divided already
            use_distributed_sampler=False,
            # Under Slurm, Lightning resumes from any hpc_ckpt_*.ckpt in this folder, by default the current one.
            default_root_dir=os.devnull,
            accelerator="gpu" if device.type == "cuda" else "cpu",
            devices=1,
            precision=config.train.precision,
            max_steps=steps_of(config.train),
            max_epochs=-1,
            callbacks=list(callbacks),
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )


@contextmanager
def _without_variables(say: Callable[[str], None]) -> Iterator[None]:
    """Hides the `PL_TRAINER_*` variables: Lightning takes missing arguments from them, which no configuration shows."""
    hidden = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("PL_TRAINER_")}
    if hidden:
        say(f"note: not used: {', '.join(sorted(hidden))}; the configuration alone decides")
    try:
        yield
    finally:
        os.environ.update(hidden)
