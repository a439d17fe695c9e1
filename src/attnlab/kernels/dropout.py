"""Dropout of every kind: embeddings, residual sums, feed-forward parts and attention weights.

On a GPU it is torch's fused dropout. On a CPU the masks come from random words of 64 bits, each read as four numbers of
16 bits and compared with a threshold: one word of torch's default generator for four values, where torch draws one
number a value. So on a CPU a rate is rounded to a multiple of 2^-16; kept values are divided by the share that is
really kept, so that the mean stays.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

_DRAWS = 2**16
"""number of values of a draw of 16 bits"""


def dropped(x: Float[Tensor, "*rest"], rate: float, training: bool = True) -> Float[Tensor, "*rest"]:
    """Dropout: zero with probability `rate`, else x / (1 - rate); x itself outside training or for a rate of 0.

    Raises:
        ValueError: the rate is not from 0 to 1.
    """
    if not 0 <= rate <= 1:
        raise ValueError(f"rate={rate}: expected a number from 0 to 1")
    if not training or not rate:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, rate)
    if torch.compiler.is_compiling():
        return x * torch.ops.attnlab.dropout_factors(x.detach(), rate)
    return x * _factors(x, rate)


def _factors(x: Tensor, rate: float) -> Tensor:
    """Random factors of the values of x: 0 or the inverse of the kept share."""
    words = torch.randint(-(2**63), 2**63 - 1, (-(-x.numel() // 4),), dtype=torch.int64)
    draws = words.view(torch.int16)[: x.numel()].view(x.shape)
    zeros = round(rate * _DRAWS)
    scale = _DRAWS / max(_DRAWS - zeros, 1)
    # Draws begin at -2^15; the `zeros` smallest become 0, the others 1. Whole numbers of 17 bits are exact in float32.
    ones = F.hardtanh_(draws.to(torch.promote_types(x.dtype, torch.float32)).sub_(zeros - _DRAWS // 2 - 1), 0.0, 1.0)
    return ones.mul_(scale).to(x.dtype)


# Seeded: the compiler must neither merge two draws nor repeat one.
torch.library.define(
    "attnlab::dropout_factors", "(Tensor x, float rate) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,)
)
"""`_factors` in compiled steps, with the draws of eager ones; with inductor's own random numbers a compiled step of
SCAN takes a quarter longer"""


@torch.library.impl("attnlab::dropout_factors", "cpu")
def _(x: Tensor, rate: float) -> Tensor:
    return _factors(x, rate)


@torch.library.register_fake("attnlab::dropout_factors")
def _(x: Tensor, rate: float) -> Tensor:
    return x.new_empty(x.shape)


class Dropout(nn.Dropout):
    """Dropout as a module; for the rate see `dropped`.

    Args:
        p: rate, from 0 to 1.
    """

    def forward(self, x: Float[Tensor, "*rest"]) -> Float[Tensor, "*rest"]:
        """`dropped` with the module's rate, in training."""
        return dropped(x, self.p, self.training)
