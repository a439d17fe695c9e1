"""Batches gathered where the data lies: from numpy arrays on the host, or from tensors on a device.

On the host a row is copied by itself. Index arithmetic over all rows at once is quicker for short rows (a SCAN batch of
256: 0.06 instead of 0.22 ms) and slower for long ones (32 rows of up to 4,000 tokens: 0.24 instead of 0.07 ms; one core
of a CPU that takes 100 ms and more for such a step): one way is enough. A device has index arithmetic alone.
"""

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

Stored = np.ndarray | Tensor
"""An array on the host, perhaps mapped from a file; or the same on a device, integers of 16 bits with a sign."""


def sent(stored: Stored, *rows: np.ndarray) -> tuple[Int[Tensor, " B"], ...]:
    """Integers [B] each, as int64 where `stored` lies; one copy carries them all, and nothing waits for it."""
    if isinstance(stored, np.ndarray) or stored.device.type == "cpu":
        return tuple(torch.from_numpy(row.astype(np.int64, copy=False)) for row in rows)
    table = torch.from_numpy(np.stack(rows).astype(np.int64, copy=False))
    return table.pin_memory().to(stored.device, non_blocking=True).unbind()


def take(stored: Stored, places: Tensor) -> Tensor:
    """`stored[places]`, a copy."""
    return stored[places] if isinstance(stored, Tensor) else torch.from_numpy(stored[places.numpy()])


def spans(
    stored: Stored, starts: Int[Tensor, " B"], lengths: Int[Tensor, " B"], longest: int, fill: int
) -> Int[Tensor, "B longest"]:
    """`stored[starts[b] : starts[b] + lengths[b]]` as row b of an int64 table, filled up with `fill`.

    Args:
        stored: [n] integers.
        longest: the largest of `lengths`, which only the host knows without waiting for the device.
    """
    if isinstance(stored, np.ndarray):
        table = np.full((len(starts), longest), fill, dtype=np.int64)
        for row, start, length in zip(table, starts.tolist(), lengths.tolist(), strict=True):
            row[:length] = stored[start : start + length]
        return torch.from_numpy(table)
    places = torch.arange(longest, device=stored.device)
    within = (starts[:, None] + places).clamp_(max=max(len(stored) - 1, 0))
    return stored[within].long().masked_fill_(places >= lengths[:, None], fill)
