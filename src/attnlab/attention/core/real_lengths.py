"""Lengths of padded sequences."""

import torch
from jaxtyping import Int
from torch import Tensor

from attnlab.attention.core.tensor_types import KeyMask


def real_lengths(x: Tensor, mask: KeyMask | None) -> Int[Tensor, " _"]:
    """Number of real positions of each sample of x (B, H, M, ...)."""
    return torch.full(x.shape[:1], x.shape[2], device=x.device) if mask is None else mask.sum(-1)
