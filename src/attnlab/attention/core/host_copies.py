"""Copies of numbers that are drawn on the host, so that they are the same on every device, into buffers on a device."""

import torch
from torch import Tensor


def fill_from_host(buffer: Tensor, values: Tensor) -> None:
    """Copies values on the host into a buffer in place. Nothing waits for a GPU: its copy leaves page-locked memory."""
    # the type is changed first: torch would change it in ordinary memory, and wait for the copy
    values = values.to(buffer.dtype)
    with torch.no_grad():
        buffer.copy_(values.pin_memory() if buffer.is_cuda else values, non_blocking=True)
