"""Slow reference of the delta rules: without decay, with one a head, with one for every column of the keys."""

import torch
from reference import recurrence
from reference.heads import project
from torch import Tensor, nn


def attention(
    module: nn.Module, x: Tensor, memory: Tensor | None, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    """Output and penalty."""

    def gates(b: int, h: int, t: int) -> tuple:
        strength = module.beta_max * torch.sigmoid(project(module.write_proj, x[b, t])[h])
        if not hasattr(module, "decay"):
            return 1.0, strength, 1.0
        logits = recurrence.chained(module.decay_proj, x[b, t]).chunk(module.n_heads)[h]
        steps = recurrence.softplus(logits + module.decay.bias[h, 0])
        return torch.exp(-torch.exp(module.decay.rate[h, 0, 0]) * steps), strength, 1.0

    return recurrence.attention(module, x, mask, causal, gates)
