"""Arguments and output of one call of a mechanism, for diagnostics."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Observation:
    """Arguments and output (B, H, N, C) of one call of `attend`, for an observer."""

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Tensor | None
    causal: bool
    out: Tensor
