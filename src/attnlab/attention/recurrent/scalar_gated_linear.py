"""Linear attention with one decay a head and position: the recurrence of Mamba-2 (Dao & Gu 2024, section 6.1).

    S_t = d_t S_(t-1) + k_t (s_t v_t)^T,   out_t = q_t S_t / sqrt(K) + w_h v_t,   log d_t = -a_h s_t

s_t = softplus(W x_t + b_h) is the step size, a_h > 0 a rate, and w_h a weight of the value itself (the skip of state
space models). Queries, keys and values pass a causal convolution and SiLU; the output an RMS norm and a swish gate.
With `gate: log_sigmoid` it is the simple gated linear attention of flash-linear-attention: log d_t =
logsigmoid(W x_t + b) / 16, without step sizes. Cost O(N K C) in chunks. Supports causal and step (constant cost a
token), and bidirectional as in `core.recurrent_layer`; not cross.

Unlike in Mamba-2 heads have queries and keys of their own, q is scaled, values have the width of the model (there
twice; `value_expansion`), the convolution has no bias, the norm is of each head, and the gate comes after it.
"""

from typing import ClassVar, Literal, Unpack

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.attention.core.decay_gates import DecayRate, wide
from attnlab.attention.core.recurrent_layer import Layer, RecurrentAttention, RecurrentOptions
from attnlab.attention.core.tensor_types import Memory
from attnlab.kernels.linear_map import LinearMap

TEMPERATURE = 16
"""divisor of logsigmoid, as in flash-linear-attention"""


class ScalarGatedLinearAttention(RecurrentAttention):
    """Linear attention with one decay a head and position.

    Args:
        d_model, n_heads, options: as in RecurrentAttention.
        gate: step_size = decays and factors of the values from step sizes; log_sigmoid = decays alone.
        skip: adds the value itself, times a weight of each head that starts at 1.
    """

    layer: ClassVar[Layer] = Layer(convolution=4, activation=True, output_gate="silu")

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        gate: Literal["step_size", "log_sigmoid"] = "step_size",
        skip: bool = True,
        **options: Unpack[RecurrentOptions],
    ) -> None:
        super().__init__(d_model, n_heads, **options)
        self.decay_proj = LinearMap(d_model, n_heads, bias=gate == "log_sigmoid")
        self.decay = DecayRate(n_heads, 1) if gate == "step_size" else None
        self.skip = nn.Parameter(torch.ones(n_heads, 1, 1)) if skip else None

    def log_decay(self, source: Memory) -> Float[Tensor, "B H M 1"]:
        logits = self.split_heads(self.decay_proj(source))
        return F.logsigmoid(wide(logits)) / TEMPERATURE if self.decay is None else self.decay(logits)

    def keys_values(self, source: Memory) -> tuple[Float[Tensor, "B H M Q"], Float[Tensor, "B H M C"]]:
        """As in the base class; keys are multiplied by the step sizes, instead of values."""
        k, v = super().keys_values(source)
        if self.decay is None:
            return k, v
        steps = self.decay.step_sizes(self.split_heads(self.decay_proj(source)))
        return torch.cat((k[..., :-1] * steps, k[..., -1:]), dim=-1), v

    def completed(
        self, out: Float[Tensor, "B H N C"], v: Float[Tensor, "B H N C"], dtype: torch.dtype
    ) -> Float[Tensor, "B H N C"]:
        return super().completed(out if self.skip is None else out + self.skip.to(v.dtype) * v, v, dtype)
