"""Sinusoidal positions: a fixed vector for every position, added to the embeddings (Vaswani et al. 2017)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.attention.core.score_position import sinusoid
from attnlab.attention.positions.base import Positions


class SinusoidalPositions(Positions):
    """Sinusoids, scaled as the embedding asks for; patches have the ones of Mittal et al. 2022."""

    def in_embeddings(self, longest: int, width: int, scale: float) -> nn.Module:
        return Sinusoids(scale)

    def of_patches(self, patches: Float[Tensor, "B N E"]) -> Float[Tensor, "N E"]:
        return patch_positions(patches.shape[1], patches.shape[2], patches)


class Sinusoids(nn.Module):
    """Sinusoids of any positions, times a factor."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: Float[Tensor, "B N E"], first: int = 0) -> Float[Tensor, "N E"]:
        """Sinusoids of positions first .. first + N - 1."""
        return sinusoidal(x.shape[1], x.shape[2], x, first) * self.scale


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
