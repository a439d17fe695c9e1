"""Slow reference of the normalisation of queries and keys: one vector of one head at a time."""

import torch
from torch import Tensor


def normalize(kind: str, x: Tensor, gain: Tensor | None, eps: float = 1e-6) -> Tensor:
    """x over its length; l1: sum of sizes, l2: root of the sum of squares, rms: root of their mean, times a gain. A
    small number is added to sums of sizes, and to sums and means of squares."""
    squares = sum(value * value for value in x)
    match kind:
        case "none":
            return x
        case "l1":
            return x / (sum(abs(value) for value in x) + eps)
        case "l2":
            return x / torch.sqrt(squares + eps)
        case "rms":
            return gain * (x / torch.sqrt(squares / len(x) + eps))
    raise AssertionError(f"no reference for kind {kind}")
