"""Optimisers and learning-rate schedules from the configuration."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from pytorch_lightning.utilities.types import OptimizerConfig, OptimizerLRSchedulerConfig
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from attnlab.config.message_text import listed
from attnlab.config.schema import Optim


def make_optimizer(optim: Optim, parameters: Iterable[nn.Parameter], fused: bool = True) -> Optimizer:
    """Adam or AdamW; `weight_decay` is L2 for Adam and decoupled for AdamW.

    Args:
        fused: update all parameters in one kernel: on a CPU in 0.27 and 0.33 of the time of torch's default, at the
            sizes of SCAN and sort-of-CLEVR (medians of paired measurements, one thread of a busy AMD EPYC).
    """
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[optim.name]
    options = {"lr": optim.lr, "betas": tuple(optim.betas), "eps": optim.eps, "weight_decay": optim.weight_decay}
    # Not False, with which torch would also update one parameter after the other.
    optimizer = kind(parameters, fused=True if fused else None, **options)
    optimizer.register_load_state_dict_pre_hook(_keep_form)
    return optimizer


def _keep_form(optimizer: Optimizer, state: dict[str, Any]) -> dict[str, Any]:
    """Keeps `fused` and `foreach` of this optimiser: the ones in a checkpoint are of the machine that wrote it."""
    groups = [
        {**saved, **{name: group[name] for name in ("fused", "foreach")}}
        for saved, group in zip(state["param_groups"], optimizer.param_groups, strict=False)
    ]
    return {**state, "param_groups": groups}


def with_schedule(optimizer: Optimizer, optim: Optim, max_steps: int) -> OptimizerLRSchedulerConfig | OptimizerConfig:
    """An optimiser and its schedule over `max_steps` steps, as Lightning takes them; constant rates need none."""
    factor = schedule_of(optim, max_steps)
    if factor is None:
        return {"optimizer": optimizer}
    return {"optimizer": optimizer, "lr_scheduler": {"scheduler": LambdaLR(optimizer, factor), "interval": "step"}}


def warmup_notes(optim: Optim, max_steps: int) -> list[str]:
    """A note where the warm-up is longer than the run, which a few steps to try a task often are."""
    warmup = optim.warmup_steps or 0
    if warmup <= max_steps:
        return []
    reached = f"the rate rises to the end, to {max_steps / (warmup + 1):.2g} of optim.lr={optim.lr:g}"
    return [f"note: optim.warmup_steps={warmup:,} are more than the {max_steps:,} steps: {reached}"]


def schedule_of(optim: Optim, max_steps: int) -> Callable[[int], float] | None:
    """Learning rate by step, counted from 0, as a share of the peak; None for a constant rate without warm-up.

    The length comes from the configuration: Lightning's estimate would reset the data loader's position on resume.

    Raises:
        ValueError: a schedule without a rate.
    """
    one_cycle, decay = _ONE_CYCLE.get(optim.schedule), _DECAYS.get(optim.schedule)
    share = (0.0 if one_cycle is None else 0.3) if optim.warmup_share is None else optim.warmup_share
    warmup = share * max_steps if optim.warmup_steps is None else float(optim.warmup_steps)
    if one_cycle is not None:
        return lambda step: _one_cycle(one_cycle, warmup, step, max_steps)
    if decay is None:
        raise ValueError(f"optim.schedule={optim.schedule}: no rate; expected one of {listed((*_ONE_CYCLE, *_DECAYS))}")
    if optim.schedule == "constant" and warmup < 1:
        return None
    return lambda step: _rate(decay, round(warmup), step, max_steps)


def _rate(decay: Callable[[int, int, int], float], warmup: int, step: int, max_steps: int) -> float:
    """Learning rate of a step, counted from 0, as a share of the peak, which step number `warmup` has."""
    return (step + 1) / (warmup + 1) if step < warmup else decay(warmup, step, max_steps)


def _done(warmup: int, step: int, max_steps: int) -> float:
    """Share of the steps after the warm-up that are done."""
    return min((step - warmup) / max(max_steps - warmup, 1), 1.0)


def _one_cycle(anneal: Callable[[float, float, float], float], warmup: float, step: int, max_steps: int) -> float:
    """As torch's OneCycleLR: from 1/25 of the peak at step 0 to the peak at step warmup - 1, then to a 250,000th of it
    at the last step. Torch's allows neither a warm-up of one step nor one as long as the run.
    """
    peak, last = warmup - 1, max_steps - 1
    if step <= peak:
        return anneal(1 / 25, 1.0, step / peak if peak > 0 else 1.0)
    return anneal(1.0, 1 / 25 / 1e4, min((step - peak) / (last - peak), 1.0) if last > peak else 1.0)


def _line(start: float, end: float, done: float) -> float:
    return start + (end - start) * done


def _cosine(start: float, end: float, done: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * done)) / 2


_ONE_CYCLE = {"one_cycle": _cosine, "one_cycle_linear": _line}
"""how these schedules go from one rate to the next"""
_DECAYS: dict[str, Callable[[int, int, int], float]] = {
    "constant": lambda warmup, step, max_steps: 1.0,
    "linear": lambda *place: _line(1.0, 0.0, _done(*place)),
    "cosine": lambda *place: _cosine(1.0, 0.0, _done(*place)),
    "inverse_sqrt": lambda warmup, step, max_steps: math.sqrt((warmup + 1) / (step + 1)),
}
"""rate after the warm-up, as a share of the peak: (warm-up, step, max_steps) -> share"""
