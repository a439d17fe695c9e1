"""Positional encodings that are added to embeddings."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.attention.base import TooLong
from attnlab.attention.core.score_position import sinusoid


def sinusoidal(length: int, width: int, like: Tensor, first: int = 0) -> Float[Tensor, "length width"]:
    """Sinusoids of positions first .. first + length - 1 (Vaswani et al. 2017, section 3.5), on the device of `like`.

    Computed for every call, so no length is too long for a trained model. Angles are in float32 at least.
    """
    dtype = torch.promote_types(like.dtype, torch.float32)
    positions = torch.arange(first, first + length, device=like.device, dtype=dtype)
    return sinusoid(positions, width).to(like.dtype)


def patch_positions(n_patches: int, width: int, like: Tensor) -> Float[Tensor, "n_patches width"]:
    """Positional encodings of Mittal et al. 2022 on sort-of-CLEVR, scaled by 1 / (1 + 1/e).

    Column c holds the sine (even c) or cosine (odd c) of position / 10000^(2c / width): frequencies fall twice as fast
    as usual, and sine and cosine of a pair have different frequencies, as in the published code.
    """
    dtype = torch.promote_types(like.dtype, torch.float32)
    columns = torch.arange(width, device=like.device, dtype=dtype)
    positions = torch.arange(n_patches, device=like.device, dtype=dtype)
    angles = positions[:, None] * torch.exp(columns * (-2 * math.log(10000.0) / width))
    table = torch.where(columns % 2 == 0, angles.sin(), angles.cos())
    return (table / (1 + math.exp(-1))).to(like.dtype)


class LearnedPositions(nn.Module):
    """A learned vector for every position, drawn from N(0, 0.02^2).

    Args:
        longest: number of positions.
    """

    def __init__(self, longest: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(longest, width)
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(self, length: int, first: int = 0) -> Float[Tensor, "length width"]:
        """Vectors of positions first .. first + length - 1.

        Raises:
            TooLong: there are fewer than first + length.
        """
        longest = len(self.table.weight)
        if first + length > longest:
            raise TooLong(
                f"a sequence of {first + length} positions, and this network learned {longest} "
                "(backbone.positions=learned); positions that go on without end: backbone.positions=sinusoidal"
            )
        return self.table.weight[first : first + length]
