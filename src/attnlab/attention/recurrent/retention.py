"""Retention (Sun et al. 2023, "Retentive Network", sections 2.1 to 2.3).

    S_t = gamma_h S_(t-1) + k_t v_t^T,   out_t = q_t S_t / sqrt(K),   gamma_h = 1 - 2^(-5 - h),  h = 0 .. H - 1

with rotary positions of queries and keys, an RMS norm of every head and a swish gate. Cost O(N K C) in chunks. Supports
causal and step (constant cost a token), and bidirectional as in `core.recurrent_layer`; not cross.

The paper's normalised variant, which divides scores by sums of decays, changes nothing before its group norm but
rounding, and is left out; so is the decay of the rotation (xPos). The norm is RMS with a gain as in
flash-linear-attention; in the paper it subtracts the mean too.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Unpack

import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.attention.core.recurrent_layer import Layer, RecurrentAttention, RecurrentOptions
from attnlab.attention.core.tensor_types import Memory
from attnlab.attention.positions.rotary import Rotation


class RetentionAttention(RecurrentAttention):
    """Retention.

    Args:
        d_model, n_heads, options: as in RecurrentAttention.
        rotary: rotary positions, whatever the backbone's are.
    """

    layer: ClassVar[Layer] = Layer(output_gate="silu", value_expansion=2.0)

    def __init__(self, d_model: int, n_heads: int, *, rotary: bool = True, **options: Unpack[RecurrentOptions]) -> None:
        super().__init__(d_model, n_heads, **options)
        if rotary and self.key_width < 2:
            raise ValueError("rotary=true with keys of width 1: expected at least 2 columns to rotate")
        if rotary:
            self.positions = Rotation()

    @classmethod
    def misfit(cls, d_model: int, n_heads: int, options: Mapping[str, Any]) -> str:
        share = options.get("key_expansion") or cls.layer.key_expansion
        if options.get("rotary") and share * d_model / n_heads < 2:
            return "rotary=true: keys of a head have one column; expected at least 2 to rotate"
        return super().misfit(d_model, n_heads, options)

    def log_decay(self, source: Memory) -> Float[Tensor, "1 H 1 1"]:
        head = torch.arange(self.n_heads, device=source.device, dtype=torch.promote_types(source.dtype, torch.float32))
        return torch.log1p(-torch.exp((-5 - head) * math.log(2)))[None, :, None, None]
