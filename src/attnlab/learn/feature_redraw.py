"""Redraws of random features and hashes during training: between optimiser steps, never inside a forward pass.

A redraw that is due after a step happens before the next step. So validation, checkpoints and the final test use the
features that the weights were trained with.
"""

from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from torch import nn

from attnlab.attention.base import Attention


def redrawn_modules(network: nn.Module) -> list[Attention]:
    """The attentions with a `redraw_every`; a shared one occurs once."""
    attentions = [module for module in network.modules() if isinstance(module, Attention)]
    return [attention for attention in attentions if attention.redraw_every is not None]


def redraw(network: nn.Module, seed: int, step: int) -> None:
    """Redraw the modules that are due after optimiser step number `step`, counted from 1.

    Random numbers depend only on seed, step and the module's number in the network. So a resumed run draws the same as
    an uninterrupted one.
    """
    for index, module in enumerate(redrawn_modules(network)):
        if module.redraw_every is not None and step % module.redraw_every == 0:
            [number] = np.random.SeedSequence((seed, step, index)).generate_state(1, np.uint64)
            module.redraw(torch.Generator().manual_seed(int(number)))


class Redraw(pl.Callback):
    """Redraws random features before the first batch of a step, where the previous step makes it due.

    Args:
        network: network of the run.
        seed: `seed` of the run.
    """

    def __init__(self, network: nn.Module, seed: int) -> None:
        self.network, self.seed = network, seed
        self._done = 0

    def on_train_batch_start(self, trainer: pl.Trainer, *args: Any) -> None:
        step = trainer.global_step
        # Once a step, not for each accumulated batch; a resumed run makes up for a redraw that was due.
        if step != self._done:
            self._done = step
            redraw(self.network, self.seed, step)
