"""InLine attention: linear attention that subtracts the mean score instead of dividing by the sum of scores (Han et al.
2024, "Bridging the Divide: Reconsidering Softmax and Linear Attention", equation 5).

    out_i = sum_j w_ij v_j,   w_ij = s_ij - mean over keys of s_i + 1/N,   s_ij = phi(q_i) . phi(k_j) / (N sqrt(D))

Weights sum to 1 and may be negative. With a denominator all phi(q) of one direction have the same weights; here queries
have different ones, unless their scores differ by a constant. The factor 1 / (N sqrt(D)) is not in the equation: the
published code has it, as a part of phi(q). phi is the identity, as in the published configurations.

Cost O(N D^2). Supports bidirectional, causal (in chunks), cross and step (constant cost per token: running sums of
keys, values and their products). The paper has images only: the causal form, with the mean over keys up to i and N = i,
is ours, and so is cross-attention with the number of keys as N. Positions that turn queries and keys are refused: the
mean would have to be taken over turned keys. Without a denominator an output is of third order in its input: with large
projections a norm of queries and keys (`normalization`) bounds the scores.

`InLine` is this equation. The published module adds a convolution of values over 3 x 3 pixels, one kernel for each
channel, made by an MLP of each head from the mean token. `LocalInLine` is the module as published for an image of one
row:

    LocalInLine out_i = sum_j w_ij v_j + r_1 v_(i-1) + r_2 v_i + r_3 v_(i+1),   r = MLP(mean over positions), by channel

Its causal form is ours: over a position and the two before it, with kernels from the mean up to it. Cost O(N D^2) more,
and 3 E numbers more in the state. It has no cross-attention, since the positions of a memory are not next to a query's,
and its `weights` are without the convolution, which no matrix of one head can hold. The paper's text beyond the
abstract could not be read: equation and convolution are from its code (LeapLabTHU/InLine) and its README.
"""

from dataclasses import dataclass, replace
from typing import Unpack

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.attention.base import AttentionOptions
from attnlab.attention.core.linear_core import (
    FEATURE_MAPS,
    FeatureMap,
    FeatureMapAttention,
    LinearState,
    mask_keys,
    sums_of_weights,
)
from attnlab.attention.core.mask_forms import real_lengths, zero_at_padding
from attnlab.attention.core.prefix_sums import rows_before
from attnlab.attention.core.sum_precision import full_precision, saturated
from attnlab.attention.core.tensor_types import (
    Attended,
    AttentionWeights,
    KeyMask,
    Keys,
    Memory,
    Queries,
    ScoreHook,
    Values,
)
from attnlab.config.schema import Count, Normalization


class InLine(FeatureMapAttention):
    """Linear attention with the mean score subtracted.

    Args:
        d_model, n_heads, options: as in FeatureMapAttention.
        feature_map: of queries and keys; features may be negative.
        normalization: kind and placement as in FeatureMapAttention; its denominator is ignored.
        chunk_size: as in FeatureMapAttention.
    """

    cross_equals_self = True

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        feature_map: FeatureMap = "identity",
        normalization: Normalization | None = None,
        chunk_size: Count = 64,
        **options: Unpack[AttentionOptions],
    ) -> None:
        normalization = replace(normalization or Normalization(), denominator=False)
        super().__init__(d_model, n_heads, eps=0.0, normalization=normalization, chunk_size=chunk_size, **options)
        self.feature_map = FEATURE_MAPS[feature_map]

    def query_map(self, q: Queries) -> Float[Tensor, "B H N F"]:
        return self.feature_map(q)

    @property
    def feature_width(self) -> int:
        """A feature of ones after the features of keys: its sums are the sum of values and the number of keys."""
        return self.n_features + 1

    @property
    def sums_of_keys(self) -> bool:
        return True

    def query_features(self, q: Queries, first: int = 0) -> Float[Tensor, "B H N F"]:
        # after a norm too, which would cancel a factor before it
        return super().query_features(q, first) * self.head_width**-0.5

    def key_features(self, k: Keys, mask: KeyMask | None, first: int = 0) -> Float[Tensor, "B H M F2"]:
        return mask_keys(F.pad(super().key_features(k, mask, first), (0, 1), value=1.0), mask)

    def features(
        self, q: Queries, k: Keys, mask: KeyMask | None, causal: bool
    ) -> tuple[Float[Tensor, "B H N F2"], Float[Tensor, "B H M F2"]]:
        q, k = super().features(q, k, mask, causal)
        return _without_mean(q, sums_of_weights(q, k[..., :-1], causal), _number_of_keys(k, mask, causal)), k

    def read(
        self, q: Float[Tensor, "B H N F"], sums: Float[Tensor, "B H F2 C"], position: int | None
    ) -> Float[Tensor, "B H N D"]:
        n_keys = sums[..., -1:, -1:].clamp(min=1)
        return _without_mean(q, q @ sums[..., :-1, -1:], n_keys) @ sums[..., :-1]


def _without_mean(q: Tensor, total: Tensor, n_keys: Tensor) -> Float[Tensor, "B H N F2"]:
    """Features of queries whose products with [phi(k), 1] are w: from the sum of their scores, before 1/N."""
    return torch.cat((q, 1 - total / n_keys), -1) / n_keys


def _number_of_keys(k: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """N of every query: 1 at least, [N, 1] or [B, 1, 1, 1]."""
    if causal:
        return torch.arange(1, k.shape[2] + 1, dtype=k.dtype, device=k.device)[:, None]
    return real_lengths(k, mask).clamp(min=1).to(k.dtype)[:, None, None, None]


@dataclass(frozen=True)
class LocalState(LinearState):
    """Also the last two values, and the sum of the tokens read so far, by heads."""

    values: Float[Tensor, "B H 2 D"]
    tokens: Float[Tensor, "B H 1 D"]


class LocalInLine(InLine):
    """InLine attention and a convolution of values; queries carry their tokens as further columns.

    Args:
        d_model, n_heads, feature_map, normalization, chunk_size, options: as in InLine.
    """

    supports_cross = False

    def make_projections(self, d_model: int, bias: bool) -> None:
        super().make_projections(d_model, bias)
        self.first = nn.Conv1d(d_model, d_model, 1, groups=self.n_heads)
        self.second = nn.Conv1d(d_model, 3 * d_model, 1, groups=self.n_heads)

    def queries(self, x: Float[Tensor, "B N E"]) -> Float[Tensor, "B H N Q"]:
        return torch.cat((super().queries(x), self.split_heads(x)), -1)

    def query_heads(self, q: Float[Tensor, "B H N Q"]) -> Float[Tensor, "B H N D"]:
        return q[..., : self.head_width]

    def query_features(self, q: Queries, first: int = 0) -> Float[Tensor, "B H N F"]:
        return super().query_features(self.query_heads(q), first)

    def attend(self, q: Float[Tensor, "B H N Q"], k: Keys, v: Values, mask: KeyMask | None, causal: bool) -> Attended:
        out = super().attend(self.query_heads(q), k, v, mask, causal)
        tokens = zero_at_padding(q[..., self.head_width :], None if causal else mask)
        with full_precision(tokens) as (wide,):
            total = rows_before(wide) + wide if causal else wide.sum(2, keepdim=True)
            mean = total / _number_of_keys(wide, mask, causal)
        v = F.pad(zero_at_padding(v, mask), (0, 0, 2, 0) if causal else (0, 0, 1, 1))
        return self._with_neighbours(out, v, mean)

    def weights(
        self,
        q: Float[Tensor, "B H N Q"],
        k: Keys,
        mask: KeyMask | None,
        causal: bool,
        score_hook: ScoreHook | None = None,
    ) -> AttentionWeights:
        """Without the convolution; no gradients of scores, since an output is more than weights times values."""
        return super().weights(self.query_heads(q), k, mask, causal)

    def init_state(self, batch: int, memory: Memory | None = None, mask: KeyMask | None = None) -> LocalState:
        state = super().init_state(batch, memory, mask)
        nothing = state.sums.new_zeros(batch, self.n_heads, 3, self.head_width)
        return LocalState(0, state.sums, False, nothing[:, :, :2], nothing[:, :, 2:])

    def step(self, x: Float[Tensor, "B 1 E"], state: LinearState) -> tuple[Float[Tensor, "B 1 E"], LocalState]:
        assert isinstance(state, LocalState)
        out, read = self.attend_token(x, state)
        values = torch.cat((state.values, self.split_heads(self.v_proj(x))), 2)
        tokens = state.tokens + self.split_heads(x)
        out = self._with_neighbours(out, values, tokens / read.position)
        state = LocalState(read.position, read.sums, False, values[:, :, 1:], tokens)
        return self.project_output(out, x), state

    def state_after(self, x: Float[Tensor, "B N E"]) -> LocalState:
        values = F.pad(self.split_heads(self.v_proj(x[:, -2:])), (0, 0, max(2 - x.shape[1], 0), 0))
        tokens = self.split_heads(x).sum(2, keepdim=True)
        return LocalState(x.shape[1], super().state_after(x).sums, False, values, tokens)

    def state_size(self, length: int) -> int:
        return super().state_size(length) + 3 * self.d_model

    def _with_neighbours(self, out: Tensor, v: Tensor, mean: Tensor) -> Tensor:
        """Output and the convolution of values, two of them beyond the ends, by kernels from one mean or N."""
        hidden = F.gelu(self.first(self.join_heads(mean).to(self.first.weight.dtype).transpose(1, 2)))
        kernels = self.second(hidden).unflatten(1, (self.n_heads, self.head_width, 3)).permute(0, 1, 4, 2, 3)
        with full_precision(out, v, kernels) as (wide, v, kernels):
            return saturated(wide + torch.linalg.vecdot(v.unfold(2, 3, 1), kernels), out.dtype)
