"""Optimisers and learning-rate schedules from the configuration."""

from collections.abc import Iterable

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, OneCycleLR

from attnlab.config.schema import Optim


def make_optimizer(optim: Optim, parameters: Iterable[nn.Parameter]) -> Optimizer:
    """Adam or AdamW; `weight_decay` is L2 for Adam and decoupled for AdamW."""
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[optim.name]
    return kind(parameters, lr=optim.lr, betas=tuple(optim.betas), eps=optim.eps, weight_decay=optim.weight_decay)


def make_schedule(optim: Optim, optimizer: Optimizer, max_steps: int) -> LRScheduler | None:
    """The schedule over `max_steps` optimiser steps, or None where the rate is constant.

    The length comes from the configuration: Lightning's own estimate drops the data loader's position on resume.
    """
    if optim.schedule == "constant":
        return None
    return OneCycleLR(optimizer, max_lr=optim.lr, total_steps=max_steps, cycle_momentum=False)
