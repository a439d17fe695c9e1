"""Slow reference of BaseConv: (W x_i + b) * (sum_w h_w * x_(i - w) + c) + x_i, in plain loops."""

import torch
from reference.heads import project, real_positions
from torch import Tensor, nn


def attention(
    module: nn.Module, x: Tensor, memory: Tensor | None, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    """Output and penalty; padding is zeros."""
    out = torch.zeros_like(x)
    taps = list(module.convolution.weight.flip(0))
    for b, real in enumerate(real_positions(mask, x)):
        inputs = [row if i in real else torch.zeros_like(row) for i, row in enumerate(x[b])]
        for i, row in enumerate(inputs):
            read = sum(tap * inputs[i - ago] for ago, tap in enumerate(taps) if ago <= i)
            out[b, i] = project(module.q_proj, row) * (read + module.shift) + row
    return out, torch.zeros((), dtype=x.dtype)
