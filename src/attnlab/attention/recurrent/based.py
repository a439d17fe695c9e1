"""Based: linear attention with the Taylor series of the exponential (Arora et al. 2024, "Simple linear attention
language models balance the recall-throughput tradeoff", section 4).

    out_i = sum_j w_ij v_j / (sum_j w_ij + eps),   w_ij = 1 + s_ij + s_ij^2 / 2,   s_ij = q_i . k_j / sqrt(K)

with queries and keys of a narrow width K. The weights are products of 1 + K + K (K + 1) / 2 features: 1, the columns
x_a, the squares x_a^2 / sqrt 2, and the products x_a x_b of two columns (the published code keeps both x_a x_b and
x_b x_a, so its state is larger). Within a chunk of the causal form the weights are computed from s, unless features are
normalised. Cost O(N K^2 C).
Supports bidirectional, causal (in chunks), cross and step (running sums). No rotary positions: they turn features, and
products of turned features are no Taylor series. The sliding window that the paper puts in other layers is a layer
group of another attention.
"""

from typing import Any, Unpack

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from attnlab.attention.core.linear_core import FeatureMapAttention, FeatureMapOptions
from attnlab.attention.core.linear_sums import causal_sums, with_ones
from attnlab.attention.core.mask_forms import zero_at_padding
from attnlab.attention.core.tensor_types import Attended, KeyMask, Keys, Queries, Values
from attnlab.config.schema import Count, NonNegative
from attnlab.kernels.direct_function import DirectFunction, result_of

SEGMENT = 512
"""positions whose features are made at once; with gradients 1.4 times as fast as all 4,096 at once (CPU)"""


class BasedAttention(FeatureMapAttention):
    """Linear attention with the Taylor series of the exponential.

    Args:
        d_model, n_heads, eps, options: as in FeatureMapAttention.
        key_width: width K of the queries and keys of a head.
    """

    cross_equals_self = True

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        key_width: Count = 16,
        eps: NonNegative = 1e-12,
        **options: Unpack[FeatureMapOptions],
    ) -> None:
        count, scale = feature_count(key_width), key_width**-0.5
        super().__init__(d_model, n_heads, key_width=key_width, n_features=count, scale=scale, eps=eps, **options)

    def query_map(self, q: Queries) -> Float[Tensor, "B H N F"]:
        return features_of(q)

    def weighted_values(self, q: Queries, k: Keys, v: Values, mask: KeyMask | None, causal: bool) -> Attended:
        """From s within a chunk, unless features are normalised: then their products are no function of s."""
        if not causal or (not self.norm_first and {self.q_norm.kind, self.k_norm.kind} != {"none"}):
            return super().weighted_values(q, k, v, mask, causal)
        v = zero_at_padding(with_ones(v) if self.denominator else v, mask)
        q, k = self.q_norm(q * self.scale), zero_at_padding(self.k_norm(k), mask)
        out, _ = causal_sums(
            q, k, v, chunk_size=self.chunk_size, total=False, features=features_of, scores=scores_of, segment=SEGMENT
        )
        return out[..., :-1] * self.divisor(out[..., -1:], q).reciprocal() if self.denominator else out


def feature_count(width: int) -> int:
    """1, the columns, and the products of two columns, squares included."""
    return 1 + width + width * (width + 1) // 2


def features_of(x: Float[Tensor, "*rest K"]) -> Float[Tensor, "*rest F"]:
    """The features of `_TaylorFeatures`."""
    features: Tensor = result_of(_TaylorFeatures, x)
    return features


def scores_of(q: Float[Tensor, "*rest N K"], k: Float[Tensor, "*rest M K"]) -> Float[Tensor, "*rest N M"]:
    """Products of the features of queries and keys up to the query's, without the features."""
    scores: Tensor = result_of(_TaylorScores, q, k)[0]
    return scores


class _TaylorFeatures(DirectFunction):
    """1, the columns x [..., K], and products of each column with the n-th after it, for n = 0 (squares / sqrt 2) to
    K / 2; after the last column comes the first.

    So products are made K at a time. With an even K and n = K / 2 each would come twice: the first half is made.
    """

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        width = x.shape[-1]
        half, places = width // 2, (width + 1) // 2
        features = x.new_empty(*x.shape[:-1], feature_count(width))
        # Slices: in a compiled step autograd forbids changes of the parts of a split.
        features[..., 0] = 1.0
        features[..., 1 : 1 + width] = x
        later = torch.cat((x, x[..., : places - 1]), dim=-1).unfold(-1, width, 1)
        products = features[..., 1 + width : 1 + width + places * width].unflatten(-1, (places, width))
        products.copy_(later).mul_(x[..., None, :])
        products[..., 0, :].mul_(0.5**0.5)
        if width % 2 == 0:
            features[..., -half:] = x[..., :half] * x[..., half:]
        return features

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        width = x.shape[-1]
        half, places = width // 2, (width + 1) // 2
        products = grad[..., 1 + width : 1 + width + places * width].unflatten(-1, (places, width))
        squares, *pairs = products.unbind(-2)
        twice = torch.cat((x, x[..., : places - 1]), dim=-1)
        total = torch.addcmul(grad[..., 1 : 1 + width], squares, x, value=2**0.5)
        # and of the first columns again, where products go around the end
        total = F.pad(total, (0, places - 1))
        for n, pair in enumerate(pairs, start=1):
            total[..., :width].addcmul_(pair, twice[..., n : n + width])
            total[..., n : n + width].addcmul_(pair, x)
        total[..., : places - 1].add_(total[..., width:])
        if width % 2 == 0:
            total[..., :half].addcmul_(grad[..., -half:], x[..., half:])
            total[..., half:width].addcmul_(grad[..., -half:], x[..., :half])
        return total[..., :width]


class _TaylorScores(DirectFunction):
    """1 + s + s^2 / 2 of s = q k^T, 0 above the diagonal; and its derivative s + 1, which the gradient reads."""

    @staticmethod
    def forward(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        slope = q @ k.transpose(-1, -2) + 1.0
        # (s + 1)^2 / 2 + 1 / 2
        return torch.addcmul(slope.new_full((), 0.5), slope, slope, value=0.5).tril(), slope

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(*inputs, output[1])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
        q, k, slope = ctx.saved_tensors
        grad = (grad * slope).tril_()
        return grad @ k, grad.transpose(-1, -2) @ q
