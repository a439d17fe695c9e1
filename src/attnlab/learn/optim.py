"""Optimisers and learning-rate schedules from the configuration."""

import math
from collections.abc import Iterable

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, OneCycleLR

from attnlab.config.schema import Optim


def make_optimizer(optim: Optim, parameters: Iterable[nn.Parameter]) -> Optimizer:
    """Adam or AdamW; `weight_decay` is L2 for Adam and decoupled for AdamW."""
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[optim.name]
    return kind(parameters, lr=optim.lr, betas=tuple(optim.betas), eps=optim.eps, weight_decay=optim.weight_decay)


def make_schedule(optim: Optim, optimizer: Optimizer, max_steps: int) -> LRScheduler | None:
    """The schedule over `max_steps` optimiser steps, or None where the rate is constant from the first step on.

    The length comes from the configuration: Lightning's own estimate drops the data loader's position on resume.
    """
    if optim.schedule.startswith("one_cycle"):
        share = 0.3 if optim.warmup_share is None else optim.warmup_share
        return OneCycleLR(
            optimizer,
            max_lr=optim.lr,
            total_steps=max_steps,
            # torch divides by the length of the fall
            pct_start=share if optim.warmup_steps is None else min(optim.warmup_steps, max_steps - 1) / max_steps,
            anneal_strategy="linear" if optim.schedule == "one_cycle_linear" else "cos",
            cycle_momentum=False,
        )
    warmup = round((optim.warmup_share or 0) * max_steps) if optim.warmup_steps is None else optim.warmup_steps
    if optim.schedule == "constant" and not warmup:
        return None
    return LambdaLR(optimizer, lambda step: _rate(optim.schedule, warmup, step, max_steps))


def _rate(schedule: str, warmup: int, step: int, max_steps: int) -> float:
    """The rate of a step, counted from 0, as a share of the peak; step number `warmup` has all of it."""
    if step < warmup:
        return (step + 1) / (warmup + 1)
    done = min((step - warmup) / max(max_steps - warmup, 1), 1.0)
    match schedule:
        case "linear":
            return 1 - done
        case "cosine":
            return (1 + math.cos(math.pi * done)) / 2
        case "inverse_sqrt":
            return math.sqrt((warmup + 1) / (step + 1))
    return 1.0
