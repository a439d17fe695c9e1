"""Skyformer (Chen et al. 2021, arXiv 2111.00035): a Gaussian kernel instead of softmax, approximated with m landmarks.

Weights are kappa(q, k) = exp(-|q - k|^2 / (2 sqrt(D))), not divided by their sum. Queries and keys together have a
positive semidefinite kernel matrix; S is a sample of m of them:

    out = kappa(Q, S) (kappa(S, S) + ridge I)^-1 kappa(S, K) V

Cost O(N m D + m^3) per head. Bidirectional self-attention only. Causal and step: landmarks come from the whole
sequence, so earlier tokens would see later ones. Cross: some landmarks come from queries, which have no padding mask in
cross-attention; the publication has no cross form.
"""

from typing import Literal, Unpack

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.attention.base import Attention, AttentionOptions
from attnlab.attention.core.landmarks import pseudo_inverse, segments, with_identity
from attnlab.attention.core.mask_forms import real_lengths
from attnlab.attention.core.sum_precision import full_precision, saturated
from attnlab.attention.core.tensor_types import Attended, Queries, SelfKeys, SelfMask, SelfValues
from attnlab.config.schema import Count, NonNegative
from attnlab.kernels.drawn_rows import fill_from_host, rows_at

# Draws are integers below 2^31: fractions would be rounded when a model is cast to half precision.
RANDOM_BITS = 31


class Skyformer(Attention):
    """Skyformer's attention.

    Half of the landmarks are queries, half are keys, at the same positions for every head, drawn with replacement as in
    the published code. The published code draws at every forward, also in evaluation; here draws stay until `redraw`.
    With `sampling: segments` one position is drawn from each of m/2 segments: no position twice, and all positions of
    sequences of up to m/2, which then have fewer landmarks and are cheap.

    Args:
        d_model, n_heads, options: as in Attention.
        n_landmarks: most landmarks, an even number, m.
        inverse_iterations: iterations of the inverse.
        ridge: added to the diagonal of the landmarks' kernel matrix.
        sampling: of landmarks: uniform = at random positions; segments = one in each of m/2 segments.
        redraw_every: optimiser steps between two draws; null = never redrawn.

    Raises:
        ValueError: n_landmarks is odd.
    """

    supports_causal = False
    supports_cross = False

    draws: Tensor

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        n_landmarks: Count = 128,
        inverse_iterations: Count = 6,
        ridge: NonNegative = 0.1,
        sampling: Literal["uniform", "segments"] = "uniform",
        redraw_every: Count | None = 1,
        **options: Unpack[AttentionOptions],
    ) -> None:
        super().__init__(d_model, n_heads, **options)
        if n_landmarks % 2:
            raise ValueError(f"n_landmarks={n_landmarks}: expected an even number, half queries and half keys")
        self.inverse_iterations, self.ridge, self.sampling = inverse_iterations, ridge, sampling
        self.redraw_every = redraw_every
        self.register_buffer("draws", torch.randint(2**RANDOM_BITS, (2, n_landmarks // 2)))

    def redraw(self, generator: torch.Generator) -> None:
        drawn = torch.randint(2**RANDOM_BITS, self.draws.shape, generator=generator, device="cpu")
        fill_from_host(self.draws, drawn)

    def attend(self, q: Queries, k: SelfKeys, v: SelfValues, mask: SelfMask | None, causal: bool) -> Attended:
        dtype, scale = v.dtype, q.shape[-1] ** -0.25
        with full_precision(q, k, v) as (q, k, v):
            q, k = q * scale, k * scale
            positions, real = self._positions(real_lengths(q, mask), q.shape[2])
            rows = positions[:, :, None].expand(-1, -1, q.shape[1], -1)
            landmarks = torch.cat((rows_at(q, rows[:, 0]), rows_at(k, rows[:, 1])), dim=2)
            q_kernel, k_kernel = gaussian_kernel(q, landmarks), gaussian_kernel(k, landmarks)
            if mask is not None:
                q_kernel, k_kernel = q_kernel * real[:, None, None, :], k_kernel * mask[:, None, :, None]
            context = self._inverse(landmarks, real) @ (k_kernel.transpose(-1, -2) @ v)
            return saturated(q_kernel @ context, dtype)

    def _positions(self, lengths: Tensor, size: int) -> tuple[Int[Tensor, "B 2 half"], Bool[Tensor, "B L"]]:
        """Positions of sampled queries and of sampled keys, and a mask of the existing landmarks of both."""
        if self.sampling == "uniform":
            positions = (self.draws * lengths[:, None, None]) >> RANDOM_BITS
            return positions, (lengths > 0)[:, None].expand(-1, self.draws.numel())
        starts, sizes = segments(lengths, min(self.draws.shape[1], size))
        inside = (self.draws[:, : sizes.shape[1]] * sizes[:, None]) >> RANDOM_BITS
        return (starts[:, None] + inside).clamp(max=size - 1), (sizes > 0).repeat(1, 2)

    def _inverse(self, landmarks: Tensor, real: Tensor) -> Float[Tensor, "B H L L"]:
        """Inverse of the kernel matrix, which is scaled by its row sums, as published, to eigenvalues in (0, 1]."""
        matrix = with_identity(gaussian_kernel(landmarks, landmarks), real, self.ridge)
        root = matrix.sum(-1).rsqrt()
        both = root[..., :, None] * root[..., None, :]
        return pseudo_inverse(matrix * both, self.inverse_iterations) * both


def gaussian_kernel(x: Float[Tensor, "B H N D"], y: Float[Tensor, "B H L D"]) -> Float[Tensor, "B H N L"]:
    """exp(-|x - y|^2 / 2)."""
    halves = [z.square().sum(-1) / 2 for z in (x, y)]
    exponent = x @ y.transpose(-1, -2) - halves[0][..., :, None] - halves[1][..., None, :]
    # With large, almost equal vectors rounding can make the exponent positive, and the exponential infinite.
    return exponent.clamp(max=0.0).exp()
