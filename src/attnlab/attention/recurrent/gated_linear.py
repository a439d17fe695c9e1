"""Gated linear attention (Yang et al. 2024, "Gated Linear Attention Transformers", section 4).

    S_t = diag(d_t) S_(t-1) + k_t v_t^T,   out_t = q_t S_t / sqrt(K),   log d_t = logsigmoid(W_2 W_1 x_t + b) / 16

with W_1 of 16 columns, an RMS norm of every head and a swish gate; keys have half the width of values. Cost O(N K C) in
chunks. Supports causal and step (constant cost a token), and bidirectional as in `core.recurrent_layer`; not cross.
"""

from typing import ClassVar, Unpack

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.attention.core.decay_gates import wide
from attnlab.attention.core.recurrent_layer import Layer, RecurrentAttention, RecurrentOptions
from attnlab.attention.core.tensor_types import Memory
from attnlab.config.schema import Count, Positive
from attnlab.kernels.linear_map import LinearMap


class GatedLinearAttention(RecurrentAttention):
    """Gated linear attention.

    Args:
        d_model, n_heads, options: as in RecurrentAttention.
        gate_rank: columns of W_1.
        gate_temperature: divisor of the logarithms of the decays.
    """

    layer: ClassVar[Layer] = Layer(output_gate="silu", key_expansion=0.5)

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        gate_rank: Count = 16,
        gate_temperature: Positive = 16.0,
        **options: Unpack[RecurrentOptions],
    ) -> None:
        super().__init__(d_model, n_heads, **options)
        self.gate_temperature = gate_temperature
        columns = n_heads * self.key_width
        self.decay_proj = nn.Sequential(LinearMap(d_model, gate_rank, bias=False), LinearMap(gate_rank, columns))

    def log_decay(self, source: Memory) -> Float[Tensor, "B H M K"]:
        return F.logsigmoid(wide(self.split_heads(self.decay_proj(source)))) / self.gate_temperature
