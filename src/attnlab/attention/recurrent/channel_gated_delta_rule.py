"""The delta rule with a decay for every column of the keys: Kimi Delta Attention (Kimi Team 2025, "Kimi Linear",
section 3).

    S_t = diag(d_t) S_(t-1) + b_t k_t (v_t - k_t diag(d_t) S_(t-1))^T,   out_t = q_t S_t / sqrt(K)
    log d_t = -a_h softplus(W_2 W_1 x_t + c),   b_t = beta_max sigmoid(W_b x_t)

Convolution, SiLU, keys of length 1 and `beta_max` are as in `delta_rule`; the output passes an RMS norm and a sigmoid
gate. The maps to decays and to the output gate go through as many columns as a head's values have. Cost O(N K C) in
chunks. Supports causal and step (constant cost a token), and bidirectional as in `core.recurrent_layer`; not cross.
"""

from typing import ClassVar, Unpack

from jaxtyping import Float
from torch import Tensor, nn

from attnlab.attention.core.decay_gates import DecayRate
from attnlab.attention.core.recurrent_layer import DeltaRuleAttention, DeltaRuleOptions, Layer
from attnlab.attention.core.tensor_types import Memory
from attnlab.kernels.linear_map import LinearMap


class ChannelGatedDeltaRule(DeltaRuleAttention):
    """The delta rule with a decay for every column of the keys.

    Args:
        d_model, n_heads, options: as in DeltaRuleAttention.
    """

    layer: ClassVar[Layer] = Layer(convolution=4, activation=True, output_gate="sigmoid", normalization="l2")

    def __init__(self, d_model: int, n_heads: int, **options: Unpack[DeltaRuleOptions]) -> None:
        super().__init__(d_model, n_heads, **options)
        self.decay_proj = self._low_rank(n_heads * self.key_width, bias=False)
        self.decay = DecayRate(n_heads, self.key_width)

    def make_output_gate(self, d_model: int, columns: int) -> nn.Module:
        return self._low_rank(columns, bias=True)

    def _low_rank(self, columns: int, bias: bool) -> nn.Module:
        inner = LinearMap(self.d_model, self.value_width, bias=False)
        return nn.Sequential(inner, LinearMap(self.value_width, columns, bias=bias))

    def log_decay(self, source: Memory) -> Float[Tensor, "B H M K"]:
        return self.decay(self.split_heads(self.decay_proj(source)))
