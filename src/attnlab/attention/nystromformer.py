"""Nystromformer (Xiong et al. 2021, arXiv 2102.03902): softmax attention approximated with m landmarks.

With Q~, K~ the means of queries and keys over m segments,

    out = softmax(Q K~^T / sqrt(D)) A^+ softmax(Q~ K^T / sqrt(D)) V + conv(V),   A = softmax(Q~ K~^T / sqrt(D))

where A^+ is the Moore-Penrose inverse by six iterations and conv is over positions, with one kernel per head.

Cost O(N m D + m^3) per head. Bidirectional self-attention only. Causal and step: landmarks come from the whole
sequence, so earlier tokens would see later ones. Cross: some landmarks come from queries, which have no padding mask in
cross-attention; the publication has no cross form. The published code cuts the padded sequence into segments and starts
the inverse from A^T over the largest column sum in the whole batch; here both are of each sample and its real
positions, so that neither other samples nor padding change the result. `inverse_start=batch` is the published start.
"""

from typing import Literal, Unpack

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.attention.base import Attention, AttentionOptions
from attnlab.attention.core.landmarks import pseudo_inverse, segments, with_identity
from attnlab.attention.core.mask_forms import real_lengths
from attnlab.attention.core.softmax_core import fused_softmax, softmax_weights
from attnlab.attention.core.sum_precision import full_precision
from attnlab.attention.core.tensor_types import Attended, Queries, SelfKeys, SelfMask, SelfValues
from attnlab.config.schema import Count


class Nystromformer(Attention):
    """Nystromformer's attention.

    With at least as many landmarks as real positions, every token is a landmark, and the result is softmax attention up
    to the convergence of the inverse (the published code then computes softmax attention).

    Args:
        d_model, n_heads, options: as in Attention.
        n_landmarks: most segments, m (published: 64 in pretraining, 32 to 256 on the Long Range Arena).
        pinv_iterations: iterations of the inverse.
        inverse_start: A^T over its largest column sum: of each head of each sample, or of all in the batch (published),
            so that the output of a sample depends on the others.
        conv_kernel: size of the convolution over values, an odd number; null = no convolution.

    Raises:
        ValueError: an even conv_kernel.
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
        inverse_start: Literal["head", "batch"] = "head",
        conv_kernel: Count | None = 35,
        **options: Unpack[AttentionOptions],
    ) -> None:
        super().__init__(d_model, n_heads, **options)
        if conv_kernel is not None and conv_kernel % 2 == 0:
            raise ValueError(f"conv_kernel={conv_kernel}: expected an odd number, or null for no convolution")
        self.n_landmarks, self.pinv_iterations, self.inverse_start = n_landmarks, pinv_iterations, inverse_start
        self.conv = None
        if conv_kernel is not None:
            self.conv = nn.Conv2d(n_heads, n_heads, (conv_kernel, 1), groups=n_heads, bias=False)

    def attend(self, q: Queries, k: SelfKeys, v: SelfValues, mask: SelfMask | None, causal: bool) -> Attended:
        dtype = v.dtype
        with full_precision(q, k, v) as (q, k, v):
            starts, sizes = segments(real_lengths(q, mask), min(self.n_landmarks, q.shape[2]))
            q_means, k_means = segment_means(q, starts, sizes), segment_means(k, starts, sizes)
            scores, real = q_means @ k_means.transpose(-1, -2) * q.shape[-1] ** -0.5, sizes > 0
            between = with_identity(softmax_weights(scores, real[:, None, None, :]), real)
            inverse = pseudo_inverse(between, self.pinv_iterations, self.inverse_start == "batch")
            context = inverse @ fused_softmax(q_means, k, v, mask, False)
            out = fused_softmax(q, k_means, context, None if mask is None else real, False)
            return (out if self.conv is None else out + _convolved(v, mask, self.conv)).to(dtype)


def _convolved(v: Tensor, mask: Tensor | None, conv: nn.Conv2d) -> Tensor:
    """Convolution over positions: a head is a channel, with one kernel for all columns."""
    v = v if mask is None else v * mask[:, None, :, None]
    weight = conv.weight.to(v.dtype)
    return F.conv2d(v, weight, padding=(weight.shape[2] // 2, 0), groups=conv.groups)


def segment_means(x: Float[Tensor, "B H N D"], starts: Tensor, sizes: Tensor) -> Float[Tensor, "B H L D"]:
    """Means over segments, 0 for empty ones; as a matrix product, because index sums are not deterministic on a GPU."""
    position = torch.arange(x.shape[2], device=x.device)
    inside = (position >= starts[..., None]) & (position < (starts + sizes)[..., None])
    share = inside / sizes.clamp(min=1)[..., None].to(x.dtype)
    means = share @ x.transpose(1, 2).flatten(2)
    return means.unflatten(-1, (x.shape[1], -1)).transpose(1, 2)
