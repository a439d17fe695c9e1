"""Gathers the rows of a batch where the data is stored: from numpy arrays on the host, or from tensors on a device.

On the host, rows are copied one by one. One index over all rows is faster for short rows (a SCAN batch of 256: 0.06
instead of 0.22 ms) and slower for long ones (32 rows of up to 4,000 tokens: 0.24 instead of 0.07 ms). A training step
on the same core takes 100 ms and more, so the host needs no second method. On a device, one index is the only method.
"""

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

Stored = np.ndarray | Tensor
"""An array on the host, perhaps mapped from a file; or its copy on a device, where 16-bit integers are signed."""


def index_tensors(stored: Stored, *rows: np.ndarray) -> tuple[Int[Tensor, " B"], ...]:
    """Arrays of integers [B] as int64 tensors on the device of `stored`; one asynchronous copy for all of them."""
    if isinstance(stored, np.ndarray) or stored.device.type == "cpu":
        return tuple(torch.from_numpy(row.astype(np.int64, copy=False)) for row in rows)
    table = torch.from_numpy(np.stack(rows).astype(np.int64, copy=False))
    return table.pin_memory().to(stored.device, non_blocking=True).unbind()


def take_rows(stored: Stored, index: Int[Tensor, " B"]) -> Tensor:
    """A copy of the rows `stored[index]`."""
    return stored[index] if isinstance(stored, Tensor) else torch.from_numpy(stored[index.numpy()])


def padded_spans(
    stored: Stored, starts: Int[Tensor, " B"], lengths: Int[Tensor, " B"], longest: int, fill: int
) -> Int[Tensor, "B longest"]:
    """An int64 table whose row b is `stored[starts[b] : starts[b] + lengths[b]]`, padded with `fill`.

    Args:
        stored: [n] integers.
        longest: the largest of `lengths`; an argument, because reading it from a device would wait for the device.
    """
    if isinstance(stored, np.ndarray):
        table = np.full((len(starts), longest), fill, dtype=np.int64)
        for row, start, length in zip(table, starts.tolist(), lengths.tolist(), strict=True):
            row[:length] = stored[start : start + length]
        return torch.from_numpy(table)
    positions = torch.arange(longest, device=stored.device)
    within = (starts[:, None] + positions).clamp_(max=max(len(stored) - 1, 0))
    return stored[within].long().masked_fill_(positions >= lengths[:, None], fill)
