"""Slow reference of the normalisation of queries and keys: one vector of one head at a time."""

import torch
from torch import Tensor

EPS = 1e-6


def normalize(kind: str, x: Tensor, gain: Tensor | None) -> Tensor:
    """x over its length; l1: sum of sizes, l2: root of the sum of squares, rms: root of their mean, times a gain."""
    squares = sum(value * value for value in x)
    match kind:
        case "none":
            return x
        case "l1":
            return x / (sum(abs(value) for value in x) + EPS)
        case "l2":
            return x / torch.sqrt(squares + EPS**2)
        case "rms":
            return gain * (x / torch.sqrt(squares / len(x) + EPS))
    raise AssertionError(f"no reference for kind {kind}")
