"""Dropout of every kind: embeddings, residual sums, feed-forward parts and attention weights.

On a GPU it is torch's fused dropout. On a CPU the masks come from random words of 64 bits, each read as four numbers of
16 bits and compared with a threshold: one word of torch's default generator for four values, where torch draws one
number a value. So on a CPU a rate is rounded to a multiple of 2^-16; kept values are divided by the share that is
really kept, so that the mean stays.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

Rate = float | Float[Tensor, ""]
"""dropout rate; a tensor in a pack of runs with different rates"""

_DRAWS = 2**16
"""number of values of a draw of 16 bits"""


def dropped(x: Float[Tensor, "*rest"], rate: Rate, training: bool = True) -> Float[Tensor, "*rest"]:
    """Dropout: zero with probability `rate`, else x / (1 - rate); x itself outside training or for a rate of 0.

    Args:
        rate: from 0 to 1; one that is a tensor may differ between the members of a vmap.

    Raises:
        ValueError: another rate; a tensor is not checked, since that would wait for its device.
    """
    if not isinstance(rate, Tensor) and not 0 <= rate <= 1:
        raise ValueError(f"rate={rate}: expected a number from 0 to 1")
    if not training or not (isinstance(rate, Tensor) or rate):
        return x
    if x.device.type == "cpu":
        whole = torch.compiler.is_compiling() and not isinstance(rate, Tensor)
        return x * (torch.ops.attnlab.dropout_factors(x.detach(), rate) if whole else _factors(x, rate))
    if not isinstance(rate, Tensor):
        return F.dropout(x, rate)
    return x * (torch.rand_like(x) >= rate) / (1 - rate).clamp(min=torch.finfo(rate.dtype).tiny).to(x.dtype)


def _factors(x: Tensor, rate: Rate) -> Tensor:
    """Random factors of the values of x: 0 or the inverse of the kept share."""
    words = torch.randint(-(2**63), 2**63 - 1, (-(-x.numel() // 4),), dtype=torch.int64)
    draws = words.view(torch.int16)[: x.numel()].view(x.shape)
    zeros = (rate * _DRAWS).round() if isinstance(rate, Tensor) else round(rate * _DRAWS)
    kept = _DRAWS - zeros
    scale = _DRAWS / (kept.clamp(min=1) if isinstance(kept, Tensor) else max(kept, 1))
    # Draws begin at -2^15; the largest `kept` of them become 1, the others 0. Whole numbers of 17 bits are exact in
    # float32. hardtanh_ is the clamp that vmap knows in place.
    ones = F.hardtanh_(draws.to(torch.promote_types(x.dtype, torch.float32)).sub_(zeros - _DRAWS // 2 - 1), 0.0, 1.0)
    return (ones.mul_(scale) if not isinstance(scale, Tensor) else ones * scale).to(x.dtype)


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


@torch.library.register_vmap("attnlab::dropout_factors")
def _(info: Any, in_dims: tuple[int, None], x: Tensor, rate: float) -> tuple[Tensor, int]:
    """Other draws for every member, as the trainer of packs asks for them; there x depends on the members' weights."""
    if info.randomness != "different":
        raise RuntimeError(f"dropout under vmap needs randomness='different', not {info.randomness!r}")
    return torch.ops.attnlab.dropout_factors(x.movedim(in_dims[0], 0), rate), 0


class Dropout(nn.Dropout):
    """Dropout as a module; for the rate see `dropped`.

    Args:
        p: rate, from 0 to 1.
    """

    def forward(self, x: Float[Tensor, "*rest"]) -> Float[Tensor, "*rest"]:
        """`dropped` with the module's rate, in training."""
        return dropped(x, self.p, self.training)
