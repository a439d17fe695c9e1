"""Linear attention on feature maps: sums, weights and decoding, shared by all its mechanisms.

    out_i = phi(q_i) S_i / (phi(q_i) z_i + eps),   S_i = sum_j phi(k_j) v_j^T,   z_i = sum_j phi(k_j)

with j over all keys (bidirectional, cross) or j <= i (causal); `linear_sums` computes them. Incremental decoding keeps
the sums, with the denominator as one more column of v, so every step has the same cost. Sums are at least in float32
(`full_precision`).
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, Unpack

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from attnlab.attention.base import Attention, AttentionOptions, State, head_width_of
from attnlab.attention.core.linear_sums import bidirectional_sums, causal_sums, key_value_sum, with_ones
from attnlab.attention.core.mask_forms import factors_of
from attnlab.attention.core.prefix_sums import rows_before
from attnlab.attention.core.qk_norm import norms_of
from attnlab.attention.core.sum_precision import full_precision, projected, saturated
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
from attnlab.config.schema import Count, NonNegative, Normalization
from attnlab.kernels.linear_map import LinearMap

# Literals are written out: the config check reads them without importing this file.
PositiveFeatureMap = Literal["one_plus_elu", "relu", "squared_relu", "sigmoid"]
FeatureMap = Literal["one_plus_elu", "relu", "squared_relu", "sigmoid", "elu", "identity"]


def one_plus_elu(x: Tensor) -> Tensor:
    """elu(x) + 1"""
    return F.elu(x).add_(1.0)


def squared_relu(x: Tensor) -> Tensor:
    """relu(x)^2"""
    return F.relu(x).square()


def identity(x: Tensor) -> Tensor:
    """x"""
    return x


# Functions with names: modules that hold one are pickled.
FEATURE_MAPS: dict[str, Callable[[Tensor], Tensor]] = {
    "one_plus_elu": one_plus_elu,
    "relu": F.relu,
    "squared_relu": squared_relu,
    "sigmoid": torch.sigmoid,
    "elu": F.elu,
    "identity": identity,
}
"""elementwise feature maps; elu and identity can be negative, so they are for mechanisms without a denominator"""


def mask_keys(k: Float[Tensor, "B H M F"], mask: KeyMask | None) -> Float[Tensor, "B H M F"]:
    """Features of keys, 0 at padding: masked after the feature map, because phi(0) is not 0."""
    return k if mask is None else k * factors_of(mask, k.dtype)


def sums_of_weights(q: Float[Tensor, "B H N F"], k: Float[Tensor, "B H M F"], causal: bool) -> Float[Tensor, "B H N 1"]:
    """phi(q_i) . phi(k_j), summed over all keys or over the keys up to i."""
    return torch.linalg.vecdot(q, rows_before(k) + k if causal else k.sum(2, keepdim=True))[..., None]


@dataclass(frozen=True)
class LinearState(State):
    """Sum of phi(k) v^T over the tokens read so far, or over the memory; z is its last column."""

    sums: Float[Tensor, "B H F C"]
    cross: bool


class FeatureMapOptions(AttentionOptions, total=False):
    """Options of every attention with a feature map; see `FeatureMapAttention`."""

    normalization: Normalization | None
    chunk_size: Count


class FeatureMapAttention(Attention[LinearState]):
    """Attention by sums of features; a subclass implements the feature map.

    A subclass whose features may be turned by positions declares `supports_rotation = True`: weights may then be
    negative, and the denominator has no positions (`positions.base`).

    Args:
        d_model, n_heads, options: as in Attention.
        key_width: width of the queries and keys of one head; None = the head width.
        n_features: features of one head (what `query_map` gives), before `with_positions`; None = key_width.
        scale: factor of queries before the feature map.
        eps: added to the denominator.
        normalization: kind, placement and denominator (config.schema.Normalization); None = none, with denominator.
        chunk_size: positions of a chunk in the causal form; affects results by rounding only.
    """

    supports_step = True

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        key_width: Count | None = None,
        n_features: Count | None = None,
        scale: float = 1.0,
        eps: NonNegative = 1e-6,
        normalization: Normalization | None = None,
        chunk_size: Count = 64,
        **options: Unpack[AttentionOptions],
    ) -> None:
        # First, because make_projections needs it.
        self.key_width = head_width_of(d_model, n_heads, options) if key_width is None else key_width
        super().__init__(d_model, n_heads, **options)
        n_features = self.key_width if n_features is None else n_features
        normalization = normalization or Normalization()
        self.norm_first = normalization.placement == "before_feature_map"
        self.denominator = normalization.denominator
        width = self.key_width if self.norm_first else n_features
        self.q_norm, self.k_norm = norms_of(normalization, width)
        self.n_features, self.scale, self.eps, self.chunk_size = n_features, scale, eps, chunk_size

    def make_projections(self, d_model: int, bias: bool) -> None:
        columns = (self.key_width * self.n_heads,) * 2 + (self.inner_width,)
        self.q_proj, self.k_proj, self.v_proj = (LinearMap(d_model, width, bias=bias) for width in columns)
        self.out_proj = LinearMap(self.inner_width, d_model, bias=bias)

    @abstractmethod
    def query_map(self, q: Queries) -> Float[Tensor, "B H N F"]:
        """phi of queries."""

    def key_map(self, k: Keys, mask: KeyMask | None) -> Float[Tensor, "B H M F"]:
        """phi of keys; the same as for queries by default."""
        return self.query_map(k)

    def with_positions(self, features: Float[Tensor, "B H N F"], first: int) -> Float[Tensor, "B H N F2"]:
        """Features with positional encoding; `first` is the position of the first row."""
        return features

    def divisor(self, total: Float[Tensor, "B H N 1"], q: Float[Tensor, "B H N F"]) -> Float[Tensor, "B H N 1"]:
        """Divisor of weighted sums, from the sum of weights and the query's features."""
        return total + self.eps

    def cast_output(self, out: Float[Tensor, "B H N C"], dtype: torch.dtype) -> Float[Tensor, "B H N C"]:
        """The sums for `project_output`: in the number format of the values, unless a norm follows first."""
        return saturated(out, dtype)

    @property
    def feature_width(self) -> int:
        """Number of features of one head in the sums, positional encoding included."""
        return self.n_features

    def query_features(self, q: Queries, first: int = 0) -> Float[Tensor, "B H N F"]:
        """Features of queries: scaled, mapped, normalised, with positional encoding."""
        q = q if self.scale == 1.0 else q * self.scale
        features = self._whole(self.query_map(self.q_norm(q) if self.norm_first else q))
        return self.with_positions(features if self.norm_first else self.q_norm(features), first)

    def key_features(self, k: Keys, mask: KeyMask | None, first: int = 0) -> Float[Tensor, "B H M F"]:
        """Features of keys: mapped, normalised, with positional encoding; 0 at padding."""
        features = self._whole(self.key_map(self.k_norm(k) if self.norm_first else k, mask))
        return mask_keys(self.with_positions(features if self.norm_first else self.k_norm(features), first), mask)

    def _whole(self, features: Tensor) -> Tensor:
        """Features, of the number that the class has declared: without this check decoding alone would find out."""
        if features.shape[-1] != self.n_features:
            raise ValueError(
                f"{type(self).__name__}: the feature map gives {features.shape[-1]} features of a head, "
                f"and the constructor has n_features={self.n_features}; hand the number to super().__init__"
            )
        return features

    def features(
        self, q: Queries, k: Keys, mask: KeyMask | None, causal: bool
    ) -> tuple[Float[Tensor, "B H N F"], Float[Tensor, "B H M G"]]:
        """Features of whole sequences, for maps that need queries and keys together, such as the longer length."""
        return self.query_features(q), self.key_features(k, mask)

    def attend(self, q: Queries, k: Keys, v: Values, mask: KeyMask | None, causal: bool) -> Attended:
        dtype = v.dtype
        with full_precision(q, k, v) as (q, k, v):
            return self.cast_output(self.weighted_values(q, k, v, mask, causal), dtype)

    def weighted_values(self, q: Queries, k: Keys, v: Values, mask: KeyMask | None, causal: bool) -> Attended:
        """`attend` in full precision; a faster form of the same weights replaces this method."""
        q, k = self.features(q, k, mask, causal)
        sums = partial(causal_sums, chunk_size=self.chunk_size) if causal else bidirectional_sums
        if self.positions is None:
            out, total = sums(q, k, v, total=self.denominator)
        else:
            out, _ = sums(self.positions.queries(q), self.positions.keys(k), v, total=False)
            total = sums_of_weights(q, k, causal) if self.denominator else None
        return out if total is None else out * self.divisor(total, q).reciprocal()

    def weights(
        self, q: Queries, k: Keys, mask: KeyMask | None, causal: bool, score_hook: ScoreHook | None = None
    ) -> AttentionWeights:
        """Scores are phi(q) . phi(k)."""
        dtype = q.dtype
        with full_precision(q, k) as (q, k):
            q, k = self.features(q, k, mask, causal)
            rows, columns = (q, k) if self.positions is None else (self.positions.queries(q), self.positions.keys(k))
            scores = rows @ columns.transpose(-1, -2)
            scores = scores if score_hook is None else score_hook(scores)
            scores = scores if mask is None else scores * mask[:, None, None, :]
            scores = scores.tril() if causal else scores
            if not self.denominator:
                return scores.to(dtype)
            total = scores.sum(-1, keepdim=True) if self.positions is None else sums_of_weights(q, k, causal)
            return (scores / self.divisor(total, q)).to(dtype)

    def project_output(self, out: Float[Tensor, "B H N C"], x: Float[Tensor, "B N E"]) -> Float[Tensor, "B N E"]:
        if self.denominator:
            return super().project_output(out, x)
        # sums over keys, which may be at the end of the range of float16
        return projected(self.out_proj, self.join_heads(out), out.dtype)

    @property
    def sums_of_keys(self) -> bool:
        """Whether the state has the sum of key features too, as its last column: for the denominator."""
        return self.denominator

    def read(
        self, q: Float[Tensor, "B H N F"], sums: Float[Tensor, "B H F2 C"], position: int | None
    ) -> Float[Tensor, "B H N D"]:
        """Output of queries from the sums of a state; `position` of the first one, None in cross-attention."""
        if self.positions is None or position is None:
            out = q @ sums
        else:
            out = self.positions.queries(q, position) @ sums
            if self.denominator:
                out = torch.cat((out[..., :-1], q @ sums[..., -1:]), dim=-1)
        return out[..., :-1] / self.divisor(out[..., -1:], q) if self.denominator else out

    def _summed(self, v: Tensor) -> Tensor:
        return with_ones(v) if self.sums_of_keys else v

    def init_state(self, batch: int, memory: Memory | None = None, mask: KeyMask | None = None) -> LinearState:
        if memory is None:
            shape = (batch, self.n_heads, self.feature_width, self.head_width + int(self.sums_of_keys))
            dtype = torch.promote_types(self.v_proj.weight.dtype, torch.float32)
            return LinearState(0, self.v_proj.weight.new_zeros(shape, dtype=dtype), cross=False)
        with full_precision(*self.memory_keys_values(memory, mask)) as (k, v):
            return LinearState(0, key_value_sum(self.key_features(k, mask), self._summed(v)), cross=True)

    def step(self, x: Float[Tensor, "B 1 E"], state: LinearState) -> tuple[Float[Tensor, "B 1 E"], LinearState]:
        out, state = self.attend_token(x, state)
        return self.project_output(out, x), state

    def attend_token(
        self, x: Float[Tensor, "B 1 E"], state: LinearState
    ) -> tuple[Float[Tensor, "B H 1 C"], LinearState]:
        """A step before the output projection."""
        sums = state.sums if state.cross else self._with_tokens(state.sums, x, state.position)
        with full_precision(self.queries(x)) as (q,):
            out = self.read(self.query_features(q, state.position), sums, None if state.cross else state.position)
            out = self.cast_output(out, x.dtype)
        return out, LinearState(state.position + 1, sums, state.cross)

    def state_after(self, x: Float[Tensor, "B N E"]) -> LinearState:
        return LinearState(x.shape[1], self._with_tokens(self.init_state(len(x)).sums, x, 0), cross=False)

    def _with_tokens(self, sums: Tensor, x: Tensor, first: int) -> Tensor:
        """Sums with more tokens; one by an outer product per head: twice as fast as a matrix product of width one."""
        add = torch.addcmul if x.shape[1] == 1 else _with_products
        with full_precision(*self.keys_values(x)) as (k, v):
            k = self.key_features(k, None, first)
            if self.positions is None:
                return add(sums, k.transpose(-1, -2), self._summed(v))
            turned = add(sums[..., : v.shape[-1]], self.positions.keys(k, first).transpose(-1, -2), v)
            if not self.denominator:
                return turned
            # the last column, the denominator, has no positions
            return torch.cat((turned, sums[..., v.shape[-1] :] + k.sum(2)[..., None]), -1)

    def state_size(self, length: int) -> int:
        return self.n_heads * self.feature_width * (self.head_width + int(self.sums_of_keys))


def _with_products(sums: Tensor, k: Float[Tensor, "B H F N"], v: Float[Tensor, "B H N C"]) -> Tensor:
    """`torch.addcmul` for several tokens."""
    return sums + k @ v
