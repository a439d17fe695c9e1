"""BaseConv, a gated convolution (Arora et al. 2023, "Zoology", arXiv 2312.04927, section 4).

    out_i = (W x_i + b) * (sum_(w < W) h_w * x_(i - w) + c) + x_i,   * by column

No attention: a mixer with which recall by attention is compared, and the first layer before every mechanism in figure 2
of Arora et al. 2024, "Simple linear attention language models balance the recall-throughput tradeoff". Each column has
one filter h of width W. The published layer can also have a filter as long as the sequence, made by an MLP: left out.
Cost O(N E^2 + N W E). Supports causal and step (the last W - 1 inputs). Not bidirectional and not cross: what is
read is given by its distance before a position. There is no output projection, and x_i is the input of the layer, after
the block's norm. Values are the inputs, so there is no orthogonality loss.
"""

from dataclasses import dataclass
from typing import Unpack

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.attention.base import Attention, AttentionOptions, State
from attnlab.attention.core.recurrent_layer import ShortConvolution, recent_inputs
from attnlab.attention.core.tensor_types import AttentionWeights, KeyMask, Keys, Memory, Queries, ScoreHook, Values
from attnlab.config.schema import Count
from attnlab.kernels.linear_map import LinearMap


@dataclass(frozen=True)
class RecentState(State):
    """The last inputs, which the convolution reads at the next position."""

    recent: Float[Tensor, "B W E"]


class BaseConv(Attention[RecentState]):
    """A gated convolution; queries are the gates, keys and values the inputs.

    Args:
        d_model, n_heads, options: as in Attention; heads only cut the columns.
        convolution: width W of the filters.
    """

    supports_bidirectional = False
    supports_cross = False
    supports_step = True
    supports_orthogonality = False

    def __init__(
        self, d_model: int, n_heads: int, *, convolution: Count = 3, **options: Unpack[AttentionOptions]
    ) -> None:
        super().__init__(d_model, n_heads, **options)
        self.width = self.causal_reach = convolution
        self.convolution = ShortConvolution(d_model, convolution)
        self.shift = nn.Parameter(torch.empty(d_model).uniform_(-(convolution**-0.5), convolution**-0.5))

    def make_projections(self, d_model: int, bias: bool) -> None:
        self.q_proj = LinearMap(d_model, d_model, bias=bias)

    def keys_values(self, source: Memory) -> tuple[Float[Tensor, "B H M D"], Float[Tensor, "B H M D"]]:
        inputs = self.split_heads(source)
        return inputs, inputs

    def attend(self, q: Queries, k: Keys, v: Values, mask: KeyMask | None, causal: bool) -> Float[Tensor, "B H N D"]:
        return q * self.split_heads(self.convolution(self.join_heads(v)))

    def project_output(self, out: Float[Tensor, "B H N D"], x: Float[Tensor, "B N E"]) -> Float[Tensor, "B N E"]:
        return self.join_heads(out) + self.shift * self.q_proj(x) + x

    def init_state(self, batch: int, memory: Memory | None = None, mask: KeyMask | None = None) -> RecentState:
        return RecentState(0, self.shift.new_zeros(batch, 0, self.d_model))

    def step(self, x: Float[Tensor, "B 1 E"], state: RecentState) -> tuple[Float[Tensor, "B 1 E"], RecentState]:
        inputs = torch.cat((state.recent, x), dim=1)
        out = self.attend(self.queries(inputs), *self.keys_values(inputs), None, True)
        recent = recent_inputs(inputs, self.width)
        return self.project_output(out[:, :, -1:], x), RecentState(state.position + 1, recent)

    def state_after(self, x: Float[Tensor, "B N E"]) -> RecentState:
        return RecentState(x.shape[1], recent_inputs(x, self.width))

    def state_size(self, length: int) -> int:
        return min(length, self.width - 1) * self.d_model

    def weights(
        self, q: Queries, k: Keys, mask: KeyMask | None, causal: bool, score_hook: ScoreHook | None = None
    ) -> AttentionWeights:
        """The mean over the columns of a head, as each column has weights of its own."""
        places = torch.arange(k.shape[2], device=q.device)
        ago = places[:, None] - places
        filters = self.convolution.weight.flip(0).unflatten(1, (self.n_heads, -1))
        seen = (ago >= 0) & (ago < len(filters))
        by_column = torch.where(seen[..., None, None], filters[ago.clamp(0, len(filters) - 1)], 0.0)
        weights = torch.einsum("bhnd,nmhd->bhnm", q, by_column) / self.head_width
        return weights if mask is None else weights * mask[:, None, None]
