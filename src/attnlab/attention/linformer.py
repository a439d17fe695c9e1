"""Linformer: keys and values projected along the length (Wang et al. 2020, section 4, equation 7).

    out_i = softmax(q_i (E K)^T / sqrt(D)) F V,   E, F of size k x (longest length), learned

Cost O(N k D), with k = `projected_length` at every length. A sequence of n positions uses the first n columns of E and
F; padded keys and values are zeros, so they add nothing.

Supports bidirectional and cross, and step in cross-attention, where the memory is projected once. Not causal, and so
no step in self-attention: each projected key mixes all positions.

The paper shares E and F between heads, with each other, or over layers (not offered here); its code draws them
xavier-uniform with gain 1/sqrt(2), shares them between heads, and applies them before the projections of keys and
values, which is the same except for biases. Nystromformer's code for Long Range Arena, also used in Skyformer's
comparison, has one E = F for each head (in Nystromformer's code the same in all layers), k = 128, drawn from a normal
distribution of deviation 0.02: `share_heads: false, share_key_value: true, projected_length: 128`. In Skyformer's code
E is moved to the GPU in a way that makes it a constant, which is never trained: `projections: fixed`.
"""

from typing import Literal, Unpack

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.attention.base import Attention, AttentionOptions, TooLong
from attnlab.attention.core.mask_forms import zero_at_padding
from attnlab.attention.core.softmax_core import KeyValueState, fused_softmax
from attnlab.attention.core.sum_precision import full_precision
from attnlab.attention.core.tensor_types import Attended, KeyMask, Keys, Memory, Queries, Values
from attnlab.config.schema import Count, Probability

FIXED_DEVIATION = 0.02
"""standard deviation of projections that are not trained, as in Skyformer's code"""


class Linformer(Attention[KeyValueState]):
    """Softmax attention over a fixed number of mixtures of the keys.

    Args:
        d_model, n_heads, options: as in Attention.
        dropout: on the attention weights, in training.
        projected_length: rows of E and F, k: the keys that every query sees.
        max_length: columns of E and F, the limit of keys; networks pass the length of their task's longest sequence.
        share_heads: the same E and F for all heads.
        share_key_value: values are projected by the keys' map (F is E).
        projections: learned = trained, from the start of the paper's code; fixed = drawn once from N(0, 0.02) and kept,
            a buffer (Skyformer's code).
    """

    cross_equals_self = True
    supports_causal = False
    supports_step = True

    e_proj: Tensor
    f_proj: Tensor | None

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        dropout: Probability = 0.0,
        projected_length: Count = 256,
        max_length: Count = 512,
        share_heads: bool = True,
        share_key_value: bool = False,
        projections: Literal["learned", "fixed"] = "learned",
        **options: Unpack[AttentionOptions],
    ) -> None:
        super().__init__(d_model, n_heads, **options)
        self.dropout, self.max_length = dropout, max_length
        shape = (1 if share_heads else n_heads, projected_length, max_length)
        for name in ("e_proj", "f_proj"):
            if name == "f_proj" and share_key_value:
                self.f_proj = None
            elif projections == "fixed":
                self.register_buffer(name, FIXED_DEVIATION * torch.randn(shape))
            else:
                bound = (3 / (projected_length + max_length)) ** 0.5
                setattr(self, name, nn.Parameter(torch.empty(shape).uniform_(-bound, bound)))

    def attend(self, q: Queries, k: Keys, v: Values, mask: KeyMask | None, causal: bool) -> Attended:
        k, v = self.projected(k, v, mask)
        return fused_softmax(q, k, v, None, False, self.dropout if self.training else 0.0)

    def projected(
        self, k: Keys, v: Values, mask: KeyMask | None
    ) -> tuple[Float[Tensor, "B H K D"], Float[Tensor, "B H K C"]]:
        """E K and F V, over real positions.

        Raises:
            TooLong: a real position beyond max_length.
        """
        length, dtype = k.shape[2], v.dtype
        self._check_length(length, mask)
        k, v = zero_at_padding(k, mask), zero_at_padding(v, mask)
        f_proj = self.e_proj if self.f_proj is None else self.f_proj
        with full_precision(k, v, self.e_proj, f_proj) as (k, v, e, f):
            k, v = k[:, :, : self.max_length], v[:, :, : self.max_length]
            return (e[..., :length] @ k).to(dtype), (f[..., :length] @ v).to(dtype)

    def _check_length(self, length: int, mask: Tensor | None) -> None:
        # Only padding may be beyond the longest sequence; compiled code cannot read a mask and refuses padding there.
        if length <= self.max_length:
            return
        if mask is None or torch.compiler.is_compiling() or mask[:, self.max_length :].any():
            raise TooLong(
                f"a sequence of {length} positions is longer than Linformer's max_length={self.max_length}, "
                "the longest of the task it was built for: its projections have no columns for more; build it with a "
                "larger max_length, or take a mechanism without a fixed length, such as linear"
            )

    def init_state(self, batch: int, memory: Memory | None = None, mask: KeyMask | None = None) -> KeyValueState:
        """The projected keys and values of a memory; self-attention has no state."""
        if memory is None:
            raise NotImplementedError("Linformer has no causal form, so no steps in self-attention")
        k, v = self.projected(*self.memory_keys_values(memory, mask), mask)
        return KeyValueState(0, k, v, None, cross=True)

    def step(self, x: Float[Tensor, "B 1 E"], state: KeyValueState) -> tuple[Float[Tensor, "B 1 E"], KeyValueState]:
        out = fused_softmax(self.queries(x), state.k, state.v, None, False, self.dropout if self.training else 0.0)
        return self.project_output(out, x), KeyValueState(state.position + 1, state.k, state.v, None, cross=True)
