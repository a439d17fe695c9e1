"""Number formats of sums: at least float32, whatever the autocast type."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


@contextmanager
def full_precision(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Autocast off, and the tensors in float32 where they came in a shorter format: half precision loses long sums."""
    with torch.autocast(device_type=tensors[0].device.type, enabled=False):
        yield tuple(t.float() if t.dtype in (torch.float16, torch.bfloat16) else t for t in tensors)
