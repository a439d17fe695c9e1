"""Random features and hashes drawn anew while training: between optimiser steps, and never inside a forward pass.

A draw that is due after a step is made when the next one begins. So validations, checkpoints and the final test are of
the features that the weights were trained with, not of new ones that they have never met.
"""

from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from torch import nn

from attnlab.learn.training_module import TrainingModule


def redrawn_modules(network: nn.Module) -> list[nn.Module]:
    """The modules that ask for it by a `redraw_every`; one that is applied several times occurs once."""
    return [module for module in network.modules() if getattr(module, "redraw_every", None) is not None]


def redraw(network: nn.Module, seed: int, step: int) -> None:
    """Redraw what is due after optimiser step number `step`, counted from 1.

    What is drawn is a function of seed, step and the module's place in the network alone. So a resumed run draws what
    an uninterrupted one does, and a run trained together with others what it draws by itself.
    """
    for index, module in enumerate(redrawn_modules(network)):
        if step % module.redraw_every == 0:
            [number] = np.random.SeedSequence((seed, step, index)).generate_state(1, np.uint64)
            module.redraw(torch.Generator().manual_seed(int(number)))


class Redraw(pl.Callback):
    """Redraws, before the first batch of a step, what is due after the step before.

    Args:
        seed: `seed` of the run.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._done = 0

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: TrainingModule, *args: Any) -> None:
        step = trainer.global_step
        # Once a step, not once for each accumulated batch; a resumed run draws what was still to be drawn.
        if step != self._done:
            self._done = step
            redraw(pl_module.network, self.seed, step)
