"""Normalisation of queries and keys, per head (Park & Kim 2024, section 1: L1, L2 and RMS layer norm).

    l1: x / (sum |x| + eps)     l2: x / sqrt(sum x^2 + eps)     rms: gain * x / sqrt(mean x^2 + eps)

Before or after the feature map, of queries, keys or both, and with or without linear attention's denominator, are
options, because the paper's formulas are not public. After the feature map and with the denominator, the scale of a
query cancels, so only the normalisation of keys has an effect. RMS has a trainable gain (one for queries, one for keys,
shared by the heads); L1 and L2 have no parameters (section 6.2.3).
"""

from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from attnlab.attention.core.sum_precision import full_precision, squared_lengths
from attnlab.config.schema import Normalization
from attnlab.kernels.direct_function import DirectFunction, result_of

EPS = {"none": 0.0, "l1": 1e-6, "l2": 1e-12, "rms": 1e-6}
"""eps of each kind, unless another is given"""


class HeadNorm(nn.Module):
    """Normalises the last axis of queries or keys; half precision is computed in float32, whose range squares need.

    Args:
        kind: none, l1, l2 or rms.
        width: size of the last axis: the head width, or the number of features after a feature map.
        eps: None = that of the kind.
    """

    def __init__(self, kind: Literal["none", "l1", "l2", "rms"], width: int, eps: float | None = None) -> None:
        super().__init__()
        self.kind, self.eps = kind, EPS[kind] if eps is None else eps
        self.gain = nn.Parameter(torch.ones(width)) if kind == "rms" else None

    def forward(self, x: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest D"]:
        with full_precision(x) as (wide,):
            return self._normalized(wide).to(x.dtype)

    def _normalized(self, x: Tensor) -> Tensor:
        if self.gain is not None:
            return self.gain * x * (x.square().mean(-1, keepdim=True) + self.eps).rsqrt()
        match self.kind:
            case "l1":
                return x / (x.abs().sum(-1, keepdim=True) + self.eps)
            case "l2":
                return result_of(_UnitLength, x, self.eps)[0]
        return x


def norms_of(normalization: Normalization, width: int) -> tuple[HeadNorm, HeadNorm]:
    """The norm of queries and the norm of keys of this width; kind none for those that `only` leaves as they are."""
    kinds = ("none" if normalization.only == other else normalization.kind for other in ("keys", "queries"))
    query_norm, key_norm = (HeadNorm(kind, width, normalization.eps) for kind in kinds)
    return query_norm, key_norm


class _UnitLength(DirectFunction):
    """y = x r with r = 1 / sqrt(sum x^2 + eps), with an explicit gradient, in fewer passes: (g - y (g . y)) r.

    Only once differentiable: r is taken as a number in the gradient.
    """

    @staticmethod
    def forward(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        inverse = (squared_lengths(x)[..., None] + eps).rsqrt()
        return x * inverse, inverse

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(*output)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, None]:
        y, inverse = ctx.saved_tensors
        return torch.addcmul(grad, y, torch.linalg.vecdot(grad, y)[..., None], value=-1).mul_(inverse), None
