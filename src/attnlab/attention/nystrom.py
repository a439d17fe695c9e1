"""Nystrom approximations of attention: all pairs of queries and keys by way of m landmarks.

Nystromformer (Xiong et al. 2021, arXiv 2102.03902): with Q~, K~ the means of queries and keys over m segments,

    out = softmax(Q K~^T / sqrt(D)) A^+ softmax(Q~ K^T / sqrt(D)) V + conv(V),   A = softmax(Q~ K~^T / sqrt(D))

where A^+ is the Moore-Penrose inverse by six iterations and conv runs over positions, one kernel a head.

Skyformer (Chen et al. 2021, arXiv 2111.00035): attention by kappa(q, k) = exp(-|q - k|^2 / (2 sqrt(D))), not divided by
its sum. Queries and keys are lifted into one positive semidefinite matrix, and m of them are sampled, S:

    out = kappa(Q, S) (kappa(S, S) + ridge I)^-1 kappa(S, K) V

Cost O(N m D + m^3) a head. Bidirectional self-attention only. Causal and step: landmarks come from the whole sequence,
so the past would see later tokens. Cross: some of them come from queries, and padded queries, which cross-attention has
no mask for, would be among these; neither publication has a cross form. The published code cuts the padded sequence
into segments and starts the inverse from a maximum over the whole batch; here each sample has its own, of its real
positions, so that neither its neighbours nor its padding change it.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlab.attention.base import Attention, Initialization, real_lengths
from attnlab.attention.core.softmax_core import fused_softmax, softmax_weights
from attnlab.attention.core.sum_precision import full_precision, saturated
from attnlab.config.schema import Count

# Random numbers are whole, below 2^31: a buffer of them survives a cast of the module to half precision.
RANDOM_BITS = 31


class NystromAttention(Attention):
    """Nystromformer's attention.

    With as many landmarks as real positions or more, every token is a landmark, and the result is softmax attention as
    far as the iterations have converged (the published code then computes softmax attention itself).

    Args:
        d_model, n_heads, bias, initialization, orthogonality: as in Attention.
        n_landmarks: segments m at most (published: 64 in pretraining, 32 to 256 on the Long Range Arena).
        pinv_iterations: of the inverse.
        conv_kernel: positions the convolution of the values sees, an odd number; None = no convolution.

    Raises:
        ValueError: n_landmarks below 1, or an even conv_kernel.
    """

    supports_causal = False
    supports_cross = False

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        n_landmarks: Count = 64,
        pinv_iterations: Count = 6,
        conv_kernel: Count | None = 35,
        bias: bool = True,
        orthogonality: bool = False,
        initialization: Initialization = "torch",
    ) -> None:
        super().__init__(d_model, n_heads, bias=bias, initialization=initialization, orthogonality=orthogonality)
        if n_landmarks < 1:
            raise ValueError(f"n_landmarks={n_landmarks}: expected at least 1")
        if conv_kernel is not None and conv_kernel % 2 == 0:
            raise ValueError(f"conv_kernel={conv_kernel}: expected an odd number, or null for no convolution")
        self.n_landmarks, self.pinv_iterations = n_landmarks, pinv_iterations
        self.conv = None
        if conv_kernel is not None:
            self.conv = nn.Conv2d(n_heads, n_heads, (conv_kernel, 1), groups=n_heads, bias=False)

    def attend(
        self,
        q: Float[Tensor, "B H N D"],
        k: Float[Tensor, "B H N D"],
        v: Float[Tensor, "B H N C"],
        mask: Bool[Tensor, "B N"] | None,
        causal: bool,
    ) -> Float[Tensor, "B H N C"]:
        dtype = v.dtype
        with full_precision(q, k, v) as (q, k, v):
            starts, sizes = segments(real_lengths(q, mask), min(self.n_landmarks, q.shape[2]))
            q_means, k_means = segment_means(q, starts, sizes), segment_means(k, starts, sizes)
            scores, real = q_means @ k_means.transpose(-1, -2) * q.shape[-1] ** -0.5, sizes > 0
            between = with_identity(softmax_weights(scores, real[:, None, None, :]), real)
            context = pseudo_inverse(between, self.pinv_iterations) @ fused_softmax(q_means, k, v, mask, False)
            out = fused_softmax(q, k_means, context, None if mask is None else real, False)
            return (out if self.conv is None else out + self._convolved(v, mask)).to(dtype)

    def _convolved(self, v: Tensor, mask: Tensor | None) -> Tensor:
        """A head is a channel and its width a second axis of the image: one kernel for all of them."""
        v = v if mask is None else v * mask[:, None, :, None]
        weight = self.conv.weight.to(v.dtype)
        return F.conv2d(v, weight, padding=(weight.shape[2] // 2, 0), groups=self.n_heads)


class SkyformerAttention(Attention):
    """Skyformer's attention.

    Half of the landmarks are queries, half are keys, the same positions for every head, drawn with replacement as in
    the published code. That draws again at every forward, in evaluation as well; here draws stay until `redraw`. With
    `sampling: segments` one position of each of m/2 segments is drawn: none twice, all of them where there are no more
    than m/2, and then fewer landmarks, so short sequences are cheap.

    Args:
        d_model, n_heads, bias, initialization, orthogonality: as in Attention.
        n_landmarks: m at most; an even number.
        inverse_iterations: of the inverse.
        ridge: added to the diagonal of the landmarks' kernel matrix.
        sampling: uniform or segments.
        redraw_every: optimiser steps between two draws; None = never again.

    Raises:
        ValueError: n_landmarks is odd or below 2.
    """

    supports_causal = False
    supports_cross = False

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        n_landmarks: Count = 128,
        inverse_iterations: Count = 6,
        ridge: float = 0.1,
        sampling: Literal["uniform", "segments"] = "uniform",
        redraw_every: Count | None = 1,
        bias: bool = True,
        orthogonality: bool = False,
        initialization: Initialization = "torch",
    ) -> None:
        super().__init__(d_model, n_heads, bias=bias, initialization=initialization, orthogonality=orthogonality)
        if n_landmarks < 2 or n_landmarks % 2:
            raise ValueError(f"n_landmarks={n_landmarks}: expected an even number, half queries and half keys")
        self.inverse_iterations, self.ridge, self.sampling = inverse_iterations, ridge, sampling
        self.redraw_every = redraw_every
        self.register_buffer("draws", torch.randint(2**RANDOM_BITS, (2, n_landmarks // 2)))

    def redraw(self, generator: torch.Generator) -> None:
        size = self.draws.shape
        self.draws.copy_(torch.randint(2**RANDOM_BITS, size, generator=generator, device=generator.device))

    def attend(
        self,
        q: Float[Tensor, "B H N D"],
        k: Float[Tensor, "B H N D"],
        v: Float[Tensor, "B H N C"],
        mask: Bool[Tensor, "B N"] | None,
        causal: bool,
    ) -> Float[Tensor, "B H N C"]:
        dtype, scale = v.dtype, q.shape[-1] ** -0.25
        with full_precision(q, k, v) as (q, k, v):
            q, k = q * scale, k * scale
            places, real = self._places(real_lengths(q, mask), q.shape[2])
            rows = places[:, :, None, :, None].expand(-1, -1, q.shape[1], -1, q.shape[3])
            landmarks = torch.cat((q.gather(2, rows[:, 0]), k.gather(2, rows[:, 1])), dim=2)
            q_kernel, k_kernel = gaussian_kernel(q, landmarks), gaussian_kernel(k, landmarks)
            if mask is not None:
                q_kernel, k_kernel = q_kernel * real[:, None, None, :], k_kernel * mask[:, None, :, None]
            context = self._inverse(landmarks, real) @ (k_kernel.transpose(-1, -2) @ v)
            return saturated(q_kernel @ context, dtype)

    def _places(self, lengths: Tensor, size: int) -> tuple[Int[Tensor, "B 2 half"], Bool[Tensor, "B L"]]:
        """Positions of sampled queries and of sampled keys, and which landmarks there are, of both together."""
        if self.sampling == "uniform":
            places = (self.draws * lengths[:, None, None]) >> RANDOM_BITS
            return places, (lengths > 0)[:, None].expand(-1, self.draws.numel())
        starts, sizes = segments(lengths, min(self.draws.shape[1], size))
        inside = (self.draws[:, : sizes.shape[1]] * sizes[:, None]) >> RANDOM_BITS
        return (starts[:, None] + inside).clamp(max=size - 1), (sizes > 0).repeat(1, 2)

    def _inverse(self, landmarks: Tensor, real: Tensor) -> Float[Tensor, "B H L L"]:
        """Scaled by its row sums on both sides, as published, the matrix has eigenvalues in (0, 1]."""
        matrix = with_identity(gaussian_kernel(landmarks, landmarks), real, self.ridge)
        root = matrix.sum(-1).rsqrt()
        both = root[..., :, None] * root[..., None, :]
        return pseudo_inverse(matrix * both, self.inverse_iterations) * both


def segments(lengths: Int[Tensor, " B"], number: int) -> tuple[Int[Tensor, "B L"], Int[Tensor, "B L"]]:
    """Starts and sizes of segments: place p of n is in floor(p s / n), s = min(n, number); the others are empty."""
    used = lengths.clamp(min=1, max=number)[:, None]
    edges = torch.arange(number + 1, device=lengths.device) * lengths[:, None]
    edges = ((edges + used - 1) // used).clamp(max=lengths[:, None])
    return edges[:, :-1], edges.diff()


def segment_means(x: Float[Tensor, "B H N D"], starts: Tensor, sizes: Tensor) -> Float[Tensor, "B H L D"]:
    """Means over segments, 0 for empty ones; a matrix product, since sums by index differ from run to run on a GPU."""
    place = torch.arange(x.shape[2], device=x.device)
    inside = (place >= starts[..., None]) & (place < (starts + sizes)[..., None])
    share = inside / sizes.clamp(min=1)[..., None].to(x.dtype)
    means = share @ x.transpose(1, 2).flatten(2)
    return means.unflatten(-1, (x.shape[1], -1)).transpose(1, 2)


def gaussian_kernel(x: Float[Tensor, "B H N D"], y: Float[Tensor, "B H L D"]) -> Float[Tensor, "B H N L"]:
    """exp(-|x - y|^2 / 2)."""
    halves = [z.square().sum(-1) / 2 for z in (x, y)]
    exponent = x @ y.transpose(-1, -2) - halves[0][..., :, None] - halves[1][..., None, :]
    # Rounding takes the exponent of two large and nearly equal vectors above 0, and the exponential out of range.
    return exponent.clamp(max=0.0).exp()


def with_identity(matrix: Float[Tensor, "B H L L"], real: Bool[Tensor, "B L"], ridge: float = 0.0) -> Tensor:
    """matrix + ridge I; landmarks that are not there get rows and columns of the identity, a block of its own."""
    eye = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    return torch.where(real[:, None, :, None] & real[:, None, None, :], matrix + ridge * eye, eye)


def pseudo_inverse(matrix: Float[Tensor, "B H L L"], iterations: int) -> Float[Tensor, "B H L L"]:
    """Moore-Penrose inverse by the iteration of Razavi et al. 2014, which both publications use.

    For matrices without negative entries whose largest eigenvalue is 1 (row sums of 1, or scaled by their roots): then
    the largest column sum, which the first guess is divided by, is at least 1, also where the identity was put in.
    """
    eye = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    inverse = matrix.transpose(-1, -2) / matrix.sum(-2).amax(-1)[..., None, None]
    for _ in range(iterations):
        product = matrix @ inverse
        inverse = 0.25 * inverse @ (13 * eye - product @ (15 * eye - product @ (7 * eye - product)))
    return inverse
