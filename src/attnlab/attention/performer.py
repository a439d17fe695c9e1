"""Performer: attention on random features, FAVOR+ (Choromanski et al. 2021, sections 2.2 to 2.4).

    out_i = phi(q_i) S_i / (phi(q_i) (z_i + eps)),   S_i = sum_j phi(k_j) v_j^T,   z_i = sum_j phi(k_j)
    softmax kernel: phi(x) = (exp(W x~ - |x~|^2 / 2 - shift) + eps') / sqrt(F),   x~ = x / D^(1/4)
    relu kernel:    phi(x) = relu(W x~) + eps'

With shift = 0 and eps' = 0 the mean of phi(q) . phi(k) over the draws of W is exp(q . k / sqrt(D)), softmax attention's
weight. The rows of W [F, D], one W for all heads, are standard normal; by default rows within blocks of D are
orthogonal, which lowers the variance. W is a buffer in the state dict, redrawn every `redraw_every` optimiser steps.

Cost O(N F D). Supports bidirectional, causal (in chunks), cross and step (constant cost per token: running sums).
Each query is shifted by the largest entry of its W x~. Published code (performer-pytorch 1.1.4) shifts keys by the
largest entry of the whole sequence: `key_stabilizer: sequence`, here over real positions. The causal form would then
see the future, and a step cannot know it, so by default keys are not shifted: they need no shift, since
w . k~ - |k~|^2 / 2 <= |w|^2 / 2. Published code adds eps to z in the causal form only; here all forms have it
(`key_sum_eps`). Published code treats the shifts as constants in the backward pass (`detach_stabilizer: true`), which
does not change outputs; by default gradients are exact. Skyformer's code divides queries and keys by D^(1/4) twice
(`scaled_twice: true`): x~ = x / sqrt(D), and the mean of phi(q) . phi(k) is exp(q . k / D).

The shift of keys changes the model where queries and keys are large: it moves key features below eps' (97 % of them at
s = 1 in the table), which then decides the weights. Mean entropy of `weights` (4 heads of width 64, 26 positions as in
sort-of-CLEVR, entries of queries and keys normal with standard deviation s, 8 draws of two samples; uniform weights
have ln 26 = 3.26):

    s                                      0.5   1.0   1.5   2.0   3.0   4.0
    softmax attention                      3.23  2.81  1.79  1.00  0.39  0.20
    key_stabilizer: none (the default)     3.19  2.66  2.18  1.50  2.39  3.24
    key_stabilizer: sequence (published)   3.19  3.20  3.24  3.24  3.24  3.24

So from s = 1 on the published form is nearly uniform, and the default is sharper than it: a result of the default does
not speak for published ones. Without the shift the same happens later: at s = 3 all key features are below eps'.
"""

import math
from typing import ClassVar, Literal, Unpack

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from attnlab.attention.base import head_width_of
from attnlab.attention.core.linear_core import FeatureMapAttention, FeatureMapOptions, LinearState
from attnlab.attention.core.mask_forms import padded_heads_of
from attnlab.attention.core.tensor_types import KeyMask, Keys, Memory, Queries
from attnlab.config.schema import Count, NonNegative
from attnlab.kernels.drawn_rows import fill_from_host

MAX_EXPONENT = 40.0
"""Largest exponent of a key without a shift. Few keys come near it: |w|^2 / 2 is about D / 2, and only a key close to w
reaches it. Sums of exp(40) = 2e17 over any sequence are finite in float32, and so are sums of its square, which norms
of features need."""

FEATURE_EPS = {"softmax": 1e-4, "relu": 1e-3}


def default_features(width: int) -> int:
    """D ln D rounded down, at least 1, as in performer-pytorch."""
    return max(1, int(width * math.log(width)))


def draw_projection(
    n_features: int, width: int, orthogonal: bool, generator: torch.Generator | None = None
) -> Float[Tensor, "F D"]:
    """W in float64, drawn on the CPU: standard normal rows, optionally orthogonal within blocks of `width` rows.

    Args:
        generator: a CPU generator; None = torch's global one.
    """

    def gaussian(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64, device="cpu")

    if not orthogonal:
        return gaussian(n_features, width)
    blocks, upper = torch.linalg.qr(gaussian(-(-n_features // width), width, width))
    # QR fixes signs by a convention; with the signs of the diagonal every direction of a row is equally likely.
    blocks = blocks * upper.diagonal(dim1=-2, dim2=-1).sign()[:, None, :]
    lengths = gaussian(n_features, width).norm(dim=-1, keepdim=True)
    return lengths * blocks.flatten(0, 1)[:n_features]


class Performer(FeatureMapAttention):
    """Linear attention on random features.

    Args:
        d_model, n_heads, options: as in FeatureMapAttention.
        kernel: softmax (features whose products estimate softmax attention's weights) or relu.
        n_features: random features, rows of W; null = D ln D, rounded down.
        orthogonal: random features (rows of W) orthogonal in blocks of D; false = independent.
        redraw_every: optimiser steps between two draws of the random features; null = never redrawn.
        key_stabilizer: for the softmax kernel; sequence = keys are shifted by the maximum over features and real
            positions, per sample and head (published).
        detach_stabilizer: for the softmax kernel; shifts of queries and keys are constants to the gradient (published).
            Their gradient is not 0, because eps' and eps are added after the shift.
        scaled_twice: x~ = x / sqrt(D) instead of x / D^(1/4) (code of Chen et al. 2021, Skyformer).
        feature_eps: added to every feature (eps'); null = the published 1e-4 (softmax) or 1e-3 (relu).
        key_sum_eps: added to each entry of z, the sum of the keys' features.

    Raises:
        ValueError: key_stabilizer=sequence with the relu kernel, which has no exponents.
    """

    supports_rotation = True
    cross_equals_self = True
    supports_inner_width = True

    # In the causal form every key would depend on later keys.
    limits: ClassVar = {"key_stabilizer": {"sequence": ["supports_causal"]}}

    projection: Tensor

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        kernel: Literal["softmax", "relu"] = "softmax",
        n_features: Count | None = None,
        orthogonal: bool = True,
        redraw_every: Count | None = 1000,
        key_stabilizer: Literal["none", "sequence"] = "none",
        detach_stabilizer: bool = False,
        scaled_twice: bool = False,
        feature_eps: NonNegative | None = None,
        key_sum_eps: NonNegative = 1e-6,
        **options: Unpack[FeatureMapOptions],
    ) -> None:
        width = head_width_of(d_model, n_heads, options)
        n_features = default_features(width) if n_features is None else n_features
        super().__init__(d_model, n_heads, n_features=n_features, eps=key_sum_eps, **options)
        if kernel == "relu" and key_stabilizer != "none":
            raise ValueError(f"key_stabilizer={key_stabilizer} is for kernel=softmax: relu features are not shifted")
        if kernel == "relu" and detach_stabilizer:
            raise ValueError("detach_stabilizer=true is for kernel=softmax: relu features are not shifted")
        self.kernel, self.key_stabilizer, self.detach_stabilizer = kernel, key_stabilizer, detach_stabilizer
        self.feature_eps = FEATURE_EPS[kernel] if feature_eps is None else feature_eps
        self.orthogonal, self.redraw_every, self.scaled_twice = orthogonal, redraw_every, scaled_twice
        projection = draw_projection(self.n_features, width, orthogonal)
        self.register_buffer("projection", projection.to(torch.get_default_dtype()))

    def redraw(self, generator: torch.Generator) -> None:
        """Redraw W in place.

        Args:
            generator: a CPU generator, so that W is the same on every device.
        """
        drawn = draw_projection(self.n_features, self.head_width, self.orthogonal, generator)
        fill_from_host(self.projection, drawn)

    def query_map(self, q: Queries) -> Float[Tensor, "B H N F"]:
        projected = self._projected(q)
        if self.kernel == "relu":
            return F.relu(projected) + self.feature_eps
        return self._exponential(projected + (self._row_exponent(q) - self._shift(projected, -1)))

    def key_map(self, k: Keys, mask: KeyMask | None) -> Float[Tensor, "B H M F"]:
        if self.kernel == "relu":
            return self.query_map(k)
        projected = self._projected(k)
        if self.key_stabilizer == "none":
            largest = MAX_EXPONENT - self._half_log_features
            # In place: no gradient needs the former values. hardtanh is clamp, with a gradient in one pass.
            return self._exponential(F.hardtanh_(projected.add_(self._row_exponent(k)), -math.inf, largest))
        padding = None if mask is None else padded_heads_of(mask)
        lowest = torch.finfo(projected.dtype).min
        real = projected if padding is None else projected.masked_fill(padding, lowest)
        exponents = projected + (self._row_exponent(k) - self._shift(real, (-2, -1)))
        # Filled again: without a real key the shift is the smallest number.
        return self._exponential(exponents if padding is None else exponents.masked_fill(padding, 0.0))

    @property
    def _input_scale(self) -> float:
        """x~ / x."""
        return self.head_width ** (-0.5 if self.scaled_twice else -0.25)

    def _projected(self, x: Tensor) -> Tensor:
        """W x~"""
        return F.linear(x, self.projection.to(x.dtype) * self._input_scale)

    def _shift(self, projected: Tensor, dim: int | tuple[int, int]) -> Tensor:
        """The largest entry of W x~ along some dimensions."""
        return (projected.detach() if self.detach_stabilizer else projected).amax(dim, keepdim=True)

    @property
    def _half_log_features(self) -> float:
        """ln sqrt(F)"""
        return 0.5 * math.log(self.n_features)

    def _row_exponent(self, x: Tensor) -> Tensor:
        """-|x~|^2 / 2 - ln sqrt(F), which is added: a difference would negate the gradient of all features.

        The division by sqrt(F) costs nothing here, and a pass over all features later.
        """
        factor = -0.5 * self.head_width ** (-1.0 if self.scaled_twice else -0.5)
        return x.square().sum(-1, keepdim=True) * factor - self._half_log_features

    def _exponential(self, exponents: Tensor) -> Tensor:
        return exponents.exp() + self.feature_eps * self.n_features**-0.5

    def divisor(self, total: Float[Tensor, "B H N 1"], q: Float[Tensor, "B H N F"]) -> Float[Tensor, "B H N 1"]:
        total = total + self.eps * q.sum(-1, keepdim=True)
        # A query without any key has numerator 0: with eps = 0 it must not give 0 / 0.
        return total.masked_fill(total == 0, 1.0)

    def init_state(self, batch: int, memory: Memory | None = None, mask: KeyMask | None = None) -> LinearState:
        if memory is None and self.key_stabilizer == "sequence":
            raise NotImplementedError("key_stabilizer=sequence has no step form over its own tokens: use none")
        return super().init_state(batch, memory, mask)
