"""Gates of recurrences: decays from a rate and a step size, and write strengths."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


def wide(logits: Tensor) -> Tensor:
    """Logits in float32 at least: in half precision a decay of 0.999 is 1."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


class DecayRate(nn.Module):
    """Decay of Mamba (Gu & Dao 2023): log d = -exp(a) step, step = softplus(logits + bias).

    The rates exp(a) are drawn from an interval, the steps log-uniformly from 0.001 to 0.1, as published.

    Args:
        n_heads: each has a rate.
        columns: of one head; each has a bias.
        least, most: rate.
    """

    def __init__(self, n_heads: int, columns: int, least: float = 1.0, most: float = 16.0) -> None:
        super().__init__()
        self.rate = nn.Parameter(torch.empty(n_heads, 1, 1).uniform_(least, most).log())
        steps = torch.empty(n_heads, 1, columns).uniform_(math.log(1e-3), math.log(1e-1)).exp()
        # the inverse of softplus
        self.bias = nn.Parameter(steps + torch.log(-torch.expm1(-steps)))

    def step_sizes(self, logits: Float[Tensor, "B H N K"]) -> Float[Tensor, "B H N K"]:
        """Steps > 0, in float32 at least."""
        # In order in memory: for another order the compiler expects softplus' gradient in the order of its input.
        return F.softplus((wide(logits) + wide(self.bias)).contiguous())

    def forward(self, logits: Float[Tensor, "B H N K"]) -> Float[Tensor, "B H N K"]:
        """Logarithms of the decays, in float32 at least."""
        return -wide(self.rate).exp() * self.step_sizes(logits)
