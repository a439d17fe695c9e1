"""Rows chosen by indices that are drawn on the host, so that they are the same on every device."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def fill_from_host(buffer: Tensor, values: Tensor) -> None:
    """Copies values on the host into a buffer in place. Nothing waits for a GPU: its copy leaves page-locked memory."""
    # the type is changed first: torch would change it in ordinary memory, and wait for the copy
    values = values.to(buffer.dtype)
    with torch.no_grad():
        buffer.copy_(values.pin_memory() if buffer.is_cuda else values, non_blocking=True)


def rows_at(x: Float[Tensor, "*lead N C"], index: Int[Tensor, "*lead K"]) -> Float[Tensor, "*lead K C"]:
    """Row `index[..., k]` of the last but one axis of x, for every k; the first axes of both have equal sizes.

    The gradient needs one key a row; torch.gather's needs an index for every number, all of which a GPU sorts.
    """
    n_rows = x.shape[-2]
    first = torch.arange(0, math.prod(index.shape[:-1]) * n_rows, n_rows, device=index.device)
    return F.embedding(index + first.view(*index.shape[:-1], 1), x.flatten(0, -2))
