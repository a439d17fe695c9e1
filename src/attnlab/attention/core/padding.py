"""Checks of the sequences that an attention gets, and zeros at their padding."""

import torch
from torch import Tensor

from attnlab.attention.core.mask_forms import padding_of


def queries_and_source(d_model: int, x: Tensor, memory: Tensor | None, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Sequences (B, N, E) of queries, and of keys and values: x or the memory; with zeros at padding.

    A mask has the real positions of each sequence first. This is not checked, because a GPU would wait for it.

    Raises:
        ValueError: another shape, a mask in the place of a memory, or a wrong mask.
    """
    batch = x.shape[0] if x.ndim == 3 else "batch"
    for name, tensor in (("x", x), ("memory", memory)):
        if tensor is None:
            continue
        known = tensor.ndim == 3 and tensor.shape[-1] == d_model and tensor.shape[0] == batch
        if not known or not tensor.is_floating_point():
            wanted = f"({batch}, positions, {d_model})"
            shown = f"{_kind(tensor)} of shape {tuple(tensor.shape)}"
            named = "; a mask is given by its name, mask=..." if tensor.dtype == torch.bool else ""
            raise ValueError(f"{name}: expected numbers of shape {wanted}, found {shown}{named}")
    source = without_padding(x if memory is None else memory, mask)
    return source if memory is None else x, source


def without_padding(x: Tensor, mask: Tensor | None) -> Tensor:
    """Sequences (B, M, E) with zeros at padding, so that it reaches no output.

    Raises:
        ValueError: the mask is not boolean, or not (B, M).
    """
    if mask is None:
        return x
    if mask.dtype != torch.bool or mask.shape != x.shape[:2]:
        shown = f"{_kind(mask)} of shape {tuple(mask.shape)}"
        raise ValueError(f"mask: expected bool (True = a real position) of shape {tuple(x.shape[:2])}, found {shown}")
    return x.masked_fill(padding_of(mask), 0.0)


def _kind(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")
