"""The gated delta rule (Yang et al. 2025, "Gated Delta Networks", section 3).

    S_t = d_t S_(t-1) + b_t k_t (v_t - d_t k_t S_(t-1))^T,   out_t = q_t S_t / sqrt(K)
    log d_t = -a_h softplus(W x_t + c_h),   b_t = beta_max sigmoid(W_b x_t)

with one decay a head and position. Convolution, SiLU, keys of length 1 and `beta_max` are as in `delta_rule`; the
output passes an RMS norm and a swish gate, and values have twice the width of keys. Cost O(N K C) in chunks. Supports
causal and step (constant cost a token), and bidirectional as in `core.recurrent_layer`; not cross.
"""

from typing import ClassVar, Unpack

from jaxtyping import Float
from torch import Tensor

from attnlab.attention.core.decay_gates import DecayRate
from attnlab.attention.core.recurrent_layer import DeltaRuleAttention, DeltaRuleOptions, Layer
from attnlab.attention.core.tensor_types import Memory
from attnlab.kernels.linear_map import LinearMap


class GatedDeltaRule(DeltaRuleAttention):
    """The gated delta rule.

    Args:
        d_model, n_heads, options: as in DeltaRuleAttention.
    """

    layer: ClassVar[Layer] = Layer(
        convolution=4, activation=True, output_gate="silu", value_expansion=2.0, normalization="l2"
    )

    def __init__(self, d_model: int, n_heads: int, **options: Unpack[DeltaRuleOptions]) -> None:
        super().__init__(d_model, n_heads, **options)
        self.decay_proj, self.decay = LinearMap(d_model, n_heads, bias=False), DecayRate(n_heads, 1, least=1e-3)

    def log_decay(self, source: Memory) -> Float[Tensor, "B H M 1"]:
        return self.decay(self.split_heads(self.decay_proj(source)))
