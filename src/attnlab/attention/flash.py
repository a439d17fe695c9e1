"""The gated attention unit with quadratic attention, and FLASH, its mixed-chunk form (Hua et al. 2022, "Transformer
Quality in Linear Time", sections 2 and 3; both are baselines in Qin et al. 2022).

    z, u, v = swish(X Wz), swish(X Wu), swish(X Wv),   q, k: scaled and shifted copies of z, with rotary positions
    out = (u * A v) Wo
    quadratic:   A = relu(q k^T / n + b)^2
    mixed chunk: A = relu(q k^T / C + b)^2 within chunks of C positions, plus q' k'^T / C between chunks

with q', k' a second pair of copies of z, and b a bias for every distance. One unit is a whole layer, without a
feed-forward part, and has one head, whatever `n_heads` is; norm and residual sum belong to the layer (published:
pre-norm). Cost: FlashQuad O(N^2 (s + e)), Flash O(N C (s + e) + N s e), widths s of z and e of v. Supports
bidirectional (linear part over all chunks, also the current one), causal (over earlier chunks) and step (a cache of all
keys; mixed chunk: of the current chunk, and a running sum). No cross: queries and keys are copies of one z. n is the
length in the paper and the longest length in the code of Qin et al.; here the longest length, or the number of visible
keys (`divisor`).
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal, Unpack

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.attention.base import Attention, AttentionOptions, State, StateT
from attnlab.attention.core.linear_sums import chunks, key_value_sum
from attnlab.attention.core.mask_forms import zero_at_padding
from attnlab.attention.core.prefix_sums import sums_before
from attnlab.attention.core.score_position import DistanceBias, make_distance_bias, rotated_halves
from attnlab.attention.core.softmax_core import CachedAttention, KeyValueState, kept
from attnlab.attention.core.sum_precision import full_precision, projected, saturated
from attnlab.attention.core.tensor_types import KeyMask, Memory, ScoreHook
from attnlab.config.schema import Count, Probability
from attnlab.kernels.dropout import dropped
from attnlab.kernels.linear_map import LinearMap


class GatedAttentionOptions(AttentionOptions, total=False):
    """Options of both forms; see `GatedAttentionUnit`."""

    dropout: float
    query_width: Count
    expansion: Count
    position_bias: DistanceBias


class GatedAttentionUnit(Attention[StateT]):
    """Base class of both forms: projections, copies of z, bias, gate.

    Args:
        d_model, options: as in Attention.
        dropout: on the squared scores, in training (none in the code of Qin et al.).
        query_width: s of the paper, width of queries and keys; even, because its halves are rotated.
        expansion: e / d_model of the paper, width of values and gates as a multiple of the model's.
        position_bias: table = a number for each distance; rotary = two rotated vectors (published above length 512).
        n_pairs: pairs of queries and keys made from z.
        reach: distances of the table.
    """

    supports_cross = False
    replaces_feed_forward = True

    def __init__(
        self,
        d_model: int,
        *,
        n_pairs: int,
        reach: int,
        dropout: Probability = 0.0,
        query_width: Count = 128,
        expansion: Count = 2,
        position_bias: DistanceBias = "table",
        **options: Unpack[AttentionOptions],
    ) -> None:
        if query_width % 2:
            raise ValueError(f"query_width={query_width}: must be even, its halves are rotated")
        # First, because make_projections needs them.
        self.query_width, self.value_width, self.dropout = query_width, expansion * d_model, dropout
        super().__init__(d_model, 1, **options)
        self.q_scale, self.k_scale = (nn.Parameter(0.02 * torch.randn(n_pairs, query_width)) for _ in range(2))
        self.q_shift, self.k_shift = (nn.Parameter(torch.zeros(n_pairs, query_width)) for _ in range(2))
        self.position_bias = make_distance_bias(position_bias, reach, query_width)

    def make_projections(self, d_model: int, bias: bool) -> None:
        self.z_proj = LinearMap(d_model, self.query_width, bias=bias)
        self.u_proj, self.v_proj = (LinearMap(d_model, self.value_width, bias=bias) for _ in range(2))
        self.out_proj = LinearMap(self.value_width, d_model, bias=bias)

    def attend(
        self,
        q: Float[Tensor, "B 1 N Q"],
        k: Float[Tensor, "B 1 M K"],
        v: Float[Tensor, "B 1 M C"],
        mask: KeyMask | None,
        causal: bool,
    ) -> Float[Tensor, "B 1 N C"]:
        dtype = v.dtype
        with full_precision(q, k, v) as (q, k, v):
            return saturated(self.mix(q, k, v, mask, causal), dtype)

    @abstractmethod
    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        """A v, in full precision; arguments as in `attend`."""

    def queries(self, x: Float[Tensor, "B N E"]) -> Float[Tensor, "B 1 N Q"]:
        """The queries of all pairs, concatenated."""
        return self._copies(x, self.q_scale, self.q_shift)

    def keys_values(self, source: Memory) -> tuple[Float[Tensor, "B 1 M K"], Float[Tensor, "B 1 M C"]]:
        """The keys of all pairs, concatenated, and the values."""
        return self._copies(source, self.k_scale, self.k_shift), F.silu(self.v_proj(source))[:, None]

    def _copies(self, x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        return (F.silu(self.z_proj(x))[:, None, :, None] * scale + shift).flatten(-2)

    def query_heads(self, q: Float[Tensor, "B 1 N Q"]) -> Float[Tensor, "B P N S"]:
        return q.squeeze(1).unflatten(-1, (-1, self.query_width)).transpose(1, 2)

    def key_heads(self, k: Float[Tensor, "B 1 M K"]) -> Float[Tensor, "B P M S"]:
        return self.query_heads(k)

    def project_output(self, out: Float[Tensor, "B 1 N C"], x: Float[Tensor, "B N E"]) -> Float[Tensor, "B N E"]:
        """Output gated by u and projected."""
        gate = F.silu(self.u_proj(x))
        with full_precision(gate, out[:, 0]) as (wide, y):
            y = wide * y
        return projected(self.out_proj, y, gate.dtype)


class FlashQuad(GatedAttentionUnit[KeyValueState], CachedAttention):
    """The quadratic form ("FLASH-quad").

    Args:
        d_model, options: as in GatedAttentionUnit; n_heads has no effect.
        max_length: distances of the table, and n of `divisor: max_length` (512 in the language models of Qin et al.).
        divisor: of the squared relu: max_length = the longest sequence; keys = the number of keys the query sees.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        max_length: Count = 512,
        divisor: Literal["max_length", "keys"] = "max_length",
        **options: Unpack[GatedAttentionOptions],
    ) -> None:
        super().__init__(d_model, **options, n_pairs=1, reach=max_length)
        self.max_length, self.divisor = max_length, divisor

    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, first_query: int = 0) -> Tensor:
        return dropped(self.weights(q, k, mask, causal, first_query=first_query), self.dropout, self.training) @ v

    def attend_last(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, position: int) -> Tensor:
        dtype = v.dtype
        with full_precision(q, k, v) as (q, k, v):
            return saturated(self.mix(q, k, v, mask, False, position), dtype)

    def weights(
        self,
        q: Float[Tensor, "B 1 N S"],
        k: Float[Tensor, "B 1 M S"],
        mask: KeyMask | None,
        causal: bool,
        score_hook: ScoreHook | None = None,
        first_query: int = 0,
    ) -> Float[Tensor, "B 1 N M"]:
        dtype = q.dtype
        with full_precision(q, k) as (q, k):
            scores = rotated_halves(q, first_query) @ rotated_halves(k).transpose(-1, -2)
            keep = kept(scores, mask, causal)
            n = self.max_length if self.divisor == "max_length" else keep.sum(-1, keepdim=True).clamp(min=1)
            scores = scores / n + self.position_bias(*scores.shape[-2:], first_query)
            scores = scores if score_hook is None else score_hook(scores)
            return F.relu(scores.masked_fill(~keep, 0.0)).square().to(dtype)

    def state_size(self, length: int) -> int:
        return (self.query_width + self.value_width) * length


@dataclass(frozen=True)
class ChunkState(State):
    """Keys and values of the current chunk, and the sum of k' v^T / C over the chunks before it."""

    k: Float[Tensor, "B 1 M K"]
    v: Float[Tensor, "B 1 M C"]
    sums: Float[Tensor, "B 1 S C"]


class Flash(GatedAttentionUnit[ChunkState]):
    """The mixed-chunk form ("FLASH").

    Args:
        d_model, options: as in GatedAttentionUnit; n_heads has no effect.
        chunk_size: C; 64 in all experiments of Qin et al., 256 in the paper.
    """

    supports_step = True

    def __init__(
        self, d_model: int, n_heads: int, *, chunk_size: Count = 64, **options: Unpack[GatedAttentionOptions]
    ) -> None:
        super().__init__(d_model, **options, n_pairs=2, reach=chunk_size)
        self.chunk_size = chunk_size

    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        # Zero values remove padded keys from both parts. Sums are added in place: no gradient needs them.
        length, size = v.shape[2], min(self.chunk_size, v.shape[2])
        v = zero_at_padding(v, mask)
        (q, q_linear), (k, k_linear) = _pairs(q, 0), _pairs(k, 0)
        near = self._within(chunks(q, size), chunks(k, size), chunks(v, size), causal)
        if not causal:
            return (q_linear @ key_value_sum(k_linear / self.chunk_size, v)).add_(near.flatten(2, 3)[:, :, :length])
        sums = sums_before(key_value_sum(chunks(k_linear / self.chunk_size, size), chunks(v, size)))
        return (chunks(q_linear, size) @ sums).add_(near).flatten(2, 3)[:, :, :length]

    def _within(self, q: Tensor, k: Tensor, v: Tensor, causal: bool, first_query: int = 0) -> Tensor:
        scores = q @ k.transpose(-1, -2) / self.chunk_size
        weights = F.relu(scores + self.position_bias(*scores.shape[-2:], first_query)).square()
        return dropped(weights.tril() if causal else weights, self.dropout, self.training) @ v

    def init_state(self, batch: int, memory: Tensor | None = None, mask: Tensor | None = None) -> ChunkState:
        k, v = self.no_keys_values(batch)
        dtype = torch.promote_types(v.dtype, torch.float32)
        return ChunkState(0, k, v, v.new_zeros(batch, 1, self.query_width, self.value_width, dtype=dtype))

    def step(self, x: Float[Tensor, "B 1 E"], state: ChunkState) -> tuple[Float[Tensor, "B 1 E"], ChunkState]:
        offset = state.position % self.chunk_size
        k, v = (torch.cat(both, dim=2) for both in zip((state.k, state.v), self.keys_values(x), strict=True))
        with full_precision(self.queries(x), k, v) as (full_q, full_k, full_v):
            full_q, q_linear = _pairs(full_q, state.position)
            full_k, k_linear = _pairs(full_k, state.position - offset)
            out = (self._within(full_q, full_k, full_v, False, offset) + q_linear @ state.sums).to(x.dtype)
            sums = state.sums
            if offset + 1 == self.chunk_size:
                sums, k, v = sums + key_value_sum(k_linear, full_v) / self.chunk_size, k[:, :, :0], v[:, :, :0]
        return self.project_output(out, x), ChunkState(state.position + 1, k, v, sums)

    def state_after(self, x: Float[Tensor, "B N E"]) -> ChunkState:
        k, v = self.keys_values(x)
        start = x.shape[1] // self.chunk_size * self.chunk_size
        with full_precision(k[:, :, :start], v[:, :, :start]) as (full_k, full_v):
            sums = key_value_sum(_pairs(full_k, 0)[1] / self.chunk_size, full_v)
        return ChunkState(x.shape[1], k[:, :, start:], v[:, :, start:], sums)

    def state_size(self, length: int) -> int:
        in_chunk = length % self.chunk_size
        return self.query_width * self.value_width + in_chunk * (2 * self.query_width + self.value_width)


def _pairs(x: Tensor, first: int) -> tuple[Tensor, ...]:
    """Queries or keys of the quadratic and of the linear part, with rotary positions, whose sines are computed once."""
    return rotated_halves(x.unflatten(-1, (2, -1)).transpose(-2, -3), first).unbind(-3)
