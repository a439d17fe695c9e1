"""Slow reference of linear attention with one decay a head and position."""

import torch
from reference import recurrence
from reference.heads import project
from torch import Tensor, nn


def attention(
    module: nn.Module, x: Tensor, memory: Tensor | None, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    """Output and penalty."""

    def gates(b: int, h: int, t: int) -> tuple:
        logit = project(module.decay_proj, x[b, t])[h]
        if module.decay is None:
            return torch.sigmoid(logit) ** (1 / 16), None, 1.0
        step = recurrence.softplus(logit + module.decay.bias[h, 0, 0])
        return torch.exp(-torch.exp(module.decay.rate[h, 0, 0]) * step), None, step

    return recurrence.attention(module, x, mask, causal, gates)
