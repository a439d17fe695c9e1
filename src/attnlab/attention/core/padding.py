"""Padding of sequences, by a mask of real positions."""

import torch
from torch import Tensor


def without_padding(x: Tensor, mask: Tensor | None) -> Tensor:
    """Sequences (B, M, E) with zeros at padding, so that it reaches no output.

    Raises:
        ValueError: the mask is not boolean, or not (B, M).
    """
    if mask is None:
        return x
    if mask.dtype != torch.bool or mask.shape != x.shape[:2]:
        found = f"{str(mask.dtype).removeprefix('torch.')} of shape {tuple(mask.shape)}"
        raise ValueError(f"mask: expected bool (True = a real position) of shape {tuple(x.shape[:2])}, found {found}")
    return x.masked_fill(~mask[:, :, None], 0.0)
