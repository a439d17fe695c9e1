"""Sinusoids and rotations by position, and the positional encodings that only some mechanisms have.

Linearised relative positions (LRPE, Qin et al. 2023, as used by the published code of Qin et al. 2022) act on queries
and keys one by one, so they suit linear attention: x_i becomes R_i P x_i, with R_i a rotation by angles proportional to
i and P orthogonal and the same everywhere. The score (R_i P q_i) . (R_j P k_j) depends on positions by i - j only.

Rotary positions (Su et al. 2021, section 3.2): queries and keys are rotated by angles that grow with the position, so
that their product depends on i - j. Distance biases b_(i-j) are added to scores, from a table or from two rotated
vectors, as in FLASH (Hua et al. 2022).
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

DistanceBias = Literal["table", "rotary"]


def sinusoid(positions: Float[Tensor, " N"], width: int) -> Float[Tensor, "N width"]:
    """Sines (even columns) and cosines (odd columns) of positions (Vaswani et al. 2017, section 3.5)."""
    even = torch.arange(0, width, 2, device=positions.device, dtype=positions.dtype)
    angles = positions[:, None] * torch.exp(even * (-math.log(10000.0) / width))
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)[:, :width]


def frequencies(n_pairs: int, dtype: torch.dtype, device: torch.device | None = None) -> Float[Tensor, " P"]:
    """Angle per position, 10000^(-c / P), for pairs c = 0 .. P - 1."""
    pair = torch.arange(n_pairs, dtype=dtype, device=device)
    return torch.exp(pair * (-math.log(10000.0) / n_pairs))


def turned(left: Tensor, right: Tensor, angles: Float[Tensor, "N P"]) -> tuple[Tensor, Tensor]:
    """Pairs of columns (one of `left`, one of `right`), rotated by angles."""
    cos, sin = angles.cos().to(left.dtype), angles.sin().to(left.dtype)
    return left * cos - right * sin, right * cos + left * sin


class Lrpe(nn.Module):
    """Rotates pairs of neighbouring columns of queries, keys or features by their position times an angle.

    Args:
        kind: rotary = the fixed angles 10000^(-2c / width); householder_rotary = learned angles that start there, after
            the reflection of a fixed random unit vector (both shared by the heads).
        width: D; with an odd width the last column does not change.

    Raises:
        ValueError: width 1 has no pair.
    """

    mirror: Tensor | None

    def __init__(self, kind: Literal["rotary", "householder_rotary"], width: int) -> None:
        super().__init__()
        if width < 2:
            raise ValueError(f"lrpe={kind} with a head width of {width}: expected at least 2 columns to rotate")
        self.n_pairs, learned = width // 2, kind == "householder_rotary"
        self.angles = nn.Parameter(frequencies(self.n_pairs, torch.float32)) if learned else None
        self.register_buffer("mirror", F.normalize(torch.randn(width), dim=0) if learned else None)

    def forward(self, x: Float[Tensor, "B H N D"], positions: Int[Tensor, " N"]) -> Float[Tensor, "B H N D"]:
        # At least float32: half precision cannot represent positions above 256.
        dtype = torch.promote_types(x.dtype, torch.float32)
        angles = frequencies(self.n_pairs, dtype, x.device) if self.angles is None else self.angles.to(dtype)
        y = x.to(dtype) if self.mirror is None else _reflected(x.to(dtype), self.mirror.to(dtype))
        even, odd = y[..., : 2 * self.n_pairs].unflatten(-1, (-1, 2)).unbind(-1)
        pairs = torch.stack(turned(even, odd, positions.to(dtype)[:, None] * angles), dim=-1).flatten(-2)
        rest = y[..., 2 * self.n_pairs :]
        return (torch.cat((pairs, rest), dim=-1) if rest.shape[-1] else pairs).to(x.dtype)


def _reflected(x: Tensor, mirror: Tensor) -> Tensor:
    return x - 2 * (x * mirror).sum(-1, keepdim=True) * mirror


def rotated_halves(x: Float[Tensor, "*rest N D"], first: int = 0) -> Float[Tensor, "*rest N D"]:
    """Rows rotated by their positions, column c with column c + D/2 by the angle position * 10000^(-2c / D); D even.

    Args:
        first: position of the first row.
    """
    # Angles at least in float32: half precision cannot represent positions above 256.
    dtype = torch.promote_types(x.dtype, torch.float32)
    positions = torch.arange(first, first + x.shape[-2], device=x.device, dtype=dtype)
    angles = positions[:, None] * frequencies(x.shape[-1] // 2, dtype, x.device)
    left, right = x.chunk(2, dim=-1)
    return torch.cat(turned(left, right, angles), dim=-1)


def distances_between(n_queries: int, n_keys: int, first_query: int, device: torch.device) -> Int[Tensor, " W"]:
    """All N + M - 1 distances j - i of keys j from queries i, ascending; queries from position `first_query` on."""
    return torch.arange(1 - first_query - n_queries, n_keys - first_query, device=device)


def rows_of_distances(values: Float[Tensor, "*rest W"], n_keys: int) -> Float[Tensor, "*rest N M"]:
    """A number for every query and key, from the numbers of `distances_between`."""
    # Row i is a window of the values: indexing by an N x M matrix would have a slow gradient.
    return values.unfold(-1, n_keys, 1).flip(-2)


class TableBias(nn.Module):
    """Distance bias from a table of learned numbers; distances of `reach` and more share the last one."""

    def __init__(self, reach: int) -> None:
        super().__init__()
        self.reach = reach
        self.table = nn.Parameter(0.02 * torch.randn(2 * reach - 1))

    def forward(self, n_queries: int, n_keys: int, first_query: int = 0) -> Float[Tensor, "N M"]:
        """For queries from position `first_query` on; entry j - i + reach - 1 of the table."""
        distances = distances_between(n_queries, n_keys, first_query, self.table.device)
        values = self.table[distances.clamp(1 - self.reach, self.reach - 1) + self.reach - 1]
        return rows_of_distances(values, n_keys)


class RotaryBias(nn.Module):
    """Distance bias from two learned vectors, rotated by the positions of query and key: for any length."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key = (nn.Parameter(0.02 * torch.randn(width)) for _ in range(2))

    def forward(self, n_queries: int, n_keys: int, first_query: int = 0) -> Float[Tensor, "N M"]:
        """For queries from position `first_query` on."""
        query, key = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (self.query, self.key))
        rows = rotated_halves(query.expand(n_queries, -1), first_query)
        return rows @ rotated_halves(key.expand(n_keys, -1)).transpose(0, 1)


def make_distance_bias(kind: DistanceBias, reach: int, width: int) -> TableBias | RotaryBias:
    """A table of `reach` distances, or two vectors of `width`."""
    return TableBias(reach) if kind == "table" else RotaryBias(width)
