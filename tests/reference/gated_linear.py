"""Slow reference of gated linear attention: decays sigmoid(W_2 W_1 x + b)^(1/16) for every column of the keys."""

import torch
from reference import recurrence
from torch import Tensor, nn


def attention(
    module: nn.Module, x: Tensor, memory: Tensor | None, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    """Output and penalty."""

    def gates(b: int, h: int, t: int) -> tuple:
        logits = recurrence.chained(module.decay_proj, x[b, t]).chunk(module.n_heads)[h]
        return torch.sigmoid(logits) ** (1 / module.gate_temperature), None, 1.0

    return recurrence.attention(module, x, mask, causal, gates)
