"""Long-Short Transformer (Zhu et al. 2021, "Long-Short Transformer: Efficient Transformers for Language and Vision",
section 3): each head attends, in one softmax, to a window around the query and to r weighted means of the sequence.

    P = softmax over positions of X Wp                                   (r columns a head: the dynamic projection)
    out_i = softmax(q_i [LN_l(K_window), LN_g(P^T K)]^T / sqrt(D)) [LN_l(V_window), LN_g(P^T V)]

with LN_l and LN_g layer norms over the full width, each shared by keys and values (DualLN). Windows are
segments of w queries that also see w/2 keys on either side (bidirectional), or the last w keys (causal). In the causal
form every segment of S positions has r means, which later segments see. Cost O(N (w + r) E; causal: N (w + N r / S) E).
Supports bidirectional, causal and step (a cache that grows by r rows every S positions). No cross: a window around the
query has no meaning on another sequence.

As the authors' code, with three differences: padding is in no mean and no window here; the backbone's positional
encoding replaces the relative positions of their language models; and there is no memory of the previous batch. In
their bidirectional code P acts on keys and values after LN_l (`normalized_projection`), in their causal code before it.
"""

from dataclasses import dataclass
from typing import Unpack

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attnlab.attention.base import Attention, AttentionOptions, State
from attnlab.attention.core.softmax_core import softmax_weights
from attnlab.attention.core.sum_precision import full_precision
from attnlab.attention.core.tensor_types import AttentionWeights, KeyMask, Memory, Queries, ScoreHook
from attnlab.config.schema import Count, Probability
from attnlab.kernels.dropout import dropped
from attnlab.kernels.linear_map import LinearMap


@dataclass(frozen=True)
class LongShortState(State):
    """Keys (with logits of P) and values of the last positions, and normalised means of earlier segments."""

    k: Float[Tensor, "B H M K"]
    v: Float[Tensor, "B H M D"]
    global_k: Float[Tensor, "B H R D"]
    global_v: Float[Tensor, "B H R D"]


class LongShortAttention(Attention[LongShortState]):
    """Windows and a dynamic low-rank projection.

    `attend` is not linear in v, because it normalises means of values; `weights` leaves this norm out.

    Args:
        d_model, n_heads, options: as in Attention; Wp has no bias: it would cancel in P.
        dropout: on the attention weights, in training.
        window_size: positions of the window, w.
        rank: r, means of a sequence, or of a segment in the causal form.
        segment_size: positions of a segment in the causal form, S.
        normalized_projection: keys and values are normalised before they are projected (P).
    """

    supports_cross = False
    supports_step = True

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        dropout: Probability = 0.0,
        window_size: Count = 8,
        rank: Count = 32,
        segment_size: Count = 512,
        normalized_projection: bool = False,
        **options: Unpack[AttentionOptions],
    ) -> None:
        # First, because make_projections needs it.
        self.rank = rank
        super().__init__(d_model, n_heads, **options)
        self.dropout, self.window_size, self.segment_size = dropout, window_size, segment_size
        self.normalized_projection = normalized_projection
        self.local_norm, self.global_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def make_projections(self, d_model: int, bias: bool) -> None:
        super().make_projections(d_model, bias)
        self.p_proj = LinearMap(d_model, self.n_heads * self.rank, bias=False)

    def keys_values(self, source: Memory) -> tuple[Float[Tensor, "B H M K"], Float[Tensor, "B H M D"]]:
        """Keys, concatenated with the logits of P, and values."""
        k, v = super().keys_values(source)
        return torch.cat((k, self.split_heads(self.p_proj(source))), dim=-1), v

    def key_heads(self, k: Float[Tensor, "B H M K"]) -> Float[Tensor, "B H M D"]:
        return k[..., : self.head_width]

    def attend(
        self, q: Queries, k: Float[Tensor, "B H M K"], v: Float[Tensor, "B H M D"], mask: KeyMask | None, causal: bool
    ) -> Float[Tensor, "B H N D"]:
        dtype = v.dtype
        with full_precision(q, k, v) as (q, k, v):
            k, logits = k.split((self.head_width, self.rank), dim=-1)
            p = self._projection(logits, mask, causal)
            global_k, global_v = self._means(p, k, v)
            weights = self._weights(q, self._normed(self.local_norm, k), global_k, mask, causal)
            weights = dropped(weights, self.dropout, self.training)
            return self._summed(weights, self._normed(self.local_norm, v), global_v, causal).to(dtype)

    def weights(
        self,
        q: Queries,
        k: Float[Tensor, "B H M K"],
        mask: KeyMask | None,
        causal: bool,
        score_hook: ScoreHook | None = None,
    ) -> AttentionWeights:
        """Weights of positions, from the window and from the means together; there is no N x M matrix of scores."""
        dtype = q.dtype
        with full_precision(q, k) as (q, k):
            k, logits = k.split((self.head_width, self.rank), dim=-1)
            p = self._projection(logits, mask, causal)
            weights = self._weights(q, self._normed(self.local_norm, k), self._means(p, k, k)[0], mask, causal)
            one_hot = torch.eye(k.shape[2], dtype=k.dtype, device=k.device).expand(*k.shape[:3], -1)
            return self._summed(weights, one_hot, _projected(p, one_hot), causal).to(dtype)

    def _projection(self, logits: Tensor, mask: Tensor | None, causal: bool) -> Float[Tensor, "B H G R S"]:
        """P^T of every segment but the last one, or of the whole sequence."""
        if causal:
            logits = self._of_segments(logits, (logits.shape[2] - 1) // self.segment_size)
        else:
            logits = logits[:, :, None].transpose(-1, -2)
        # Real queries see earlier segments only, which have no padding.
        return logits.softmax(-1) if causal or mask is None else softmax_weights(logits, mask[:, None, None, None])

    def _of_segments(self, logits: Tensor, count: int) -> Float[Tensor, "B H G R S"]:
        """Logits of P of the first `count` segments."""
        size = self.segment_size
        return logits[:, :, : count * size].unflatten(2, (count, size)).transpose(-1, -2)

    def _means(self, p: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """LN_g(P^T K) and LN_g(P^T V)."""
        if self.normalized_projection:
            k, v = self._normed(self.local_norm, k), self._normed(self.local_norm, v)
        return self._normed(self.global_norm, _projected(p, k)), self._normed(self.global_norm, _projected(p, v))

    def _normed(self, norm: nn.LayerNorm, heads: Tensor) -> Tensor:
        """A layer norm over all heads together, in the format of its input."""
        x = self.join_heads(heads)
        return self.split_heads(F.layer_norm(x, x.shape[-1:], norm.weight.to(x), norm.bias.to(x), norm.eps))

    def _weights(
        self, q: Tensor, local_k: Tensor, global_k: Tensor, mask: Tensor | None, causal: bool
    ) -> Float[Tensor, "B H T W K"]:
        """Softmax over the keys of the window and the means, for every tile of w queries."""
        q = q * self.head_width**-0.5
        scores = self._tiles(q) @ self._windows(local_k, causal), self._tiles(q @ global_k.transpose(-1, -2))
        keep = self._kept_locally(q, mask, causal), self._kept_globally(q, global_k, mask, causal)
        wide = tuple(x.expand(*y.shape) for x, y in zip(keep, scores, strict=True))
        return softmax_weights(torch.cat(scores, dim=-1), torch.cat(wide, dim=-1))

    def _summed(self, weights: Tensor, local_v: Tensor, global_v: Tensor, causal: bool) -> Float[Tensor, "B H N C"]:
        """Weighted sum of the values of windows and the means of values."""
        near, means = weights.split((weights.shape[-1] - global_v.shape[2], global_v.shape[2]), dim=-1)
        out = (near @ self._windows(local_v, causal).transpose(-1, -2)).flatten(2, 3) + means.flatten(2, 3) @ global_v
        return out[:, :, : local_v.shape[2]]

    def _tiles(self, x: Tensor) -> Tensor:
        """Rows in tiles of w, the last one padded: [..., T, w, C]."""
        size = self._window(x)
        return F.pad(x, (0, 0, 0, -x.shape[-2] % size)).unflatten(-2, (-1, size))

    def _windows(self, x: Tensor, causal: bool) -> Tensor:
        """The rows that the queries of a tile may see: [..., T, C, K]."""
        size = self._window(x)
        around = max(size // 2, 1)
        before, after = (size, 0) if causal else (around, around)
        return F.pad(x, (0, 0, before, after + -x.shape[-2] % size)).unfold(-2, before + size + after, size)

    def _window(self, x: Tensor) -> int:
        """w, or the length of a shorter sequence."""
        return min(self.window_size, x.shape[-2])

    def _kept_locally(self, q: Tensor, mask: Tensor | None, causal: bool) -> Bool[Tensor, "#B 1 T #W K"]:
        real = torch.ones(1, q.shape[2], dtype=torch.bool, device=q.device) if mask is None else mask
        real = self._windows(real[:, None, :, None], causal)
        if not causal:
            return real
        size = self._window(q)
        ahead = torch.arange(2 * size, device=q.device) - torch.arange(size, device=q.device)[:, None]
        return real & (ahead > 0) & (ahead <= size)

    def _kept_globally(
        self, q: Tensor, global_k: Tensor, mask: Tensor | None, causal: bool
    ) -> Bool[Tensor, "#B 1 #T #W #R"]:
        if causal:
            query, mean = (torch.arange(n, device=q.device) for n in (q.shape[2], global_k.shape[2]))
            return self._tiles(mean // self.rank < query[:, None] // self.segment_size)[None, None]
        real = torch.ones(1, 1, dtype=torch.bool, device=q.device) if mask is None else mask
        return real.any(-1)[:, None, None, None, None]

    def init_state(self, batch: int, memory: Tensor | None = None, mask: Tensor | None = None) -> LongShortState:
        k, v = self.no_keys_values(batch)
        none = v.to(torch.promote_types(v.dtype, torch.float32))
        return LongShortState(0, k, v, none, none)

    def step(self, x: Float[Tensor, "B 1 E"], state: LongShortState) -> tuple[Float[Tensor, "B 1 E"], LongShortState]:
        k, v = (torch.cat(both, dim=2) for both in zip((state.k, state.v), self.keys_values(x), strict=True))
        global_k, global_v = state.global_k, state.global_v
        with full_precision(self.queries(x), k, v) as (q, all_k, all_v):
            all_k, logits = all_k.split((self.head_width, self.rank), dim=-1)
            near_k, near_v = (self._normed(self.local_norm, y[:, :, -self.window_size :]) for y in (all_k, all_v))
            scores = q @ torch.cat((near_k, global_k), dim=2).transpose(-1, -2) * self.head_width**-0.5
            out = (scores.softmax(-1) @ torch.cat((near_v, global_v), dim=2)).to(x.dtype)
            if (state.position + 1) % self.segment_size == 0:
                segment = (y[:, :, -self.segment_size :] for y in (all_k, all_v))
                p = logits[:, :, None, -self.segment_size :].transpose(-1, -2).softmax(-1)
                means = self._means(p, *segment)
                global_k, global_v = torch.cat((global_k, means[0]), dim=2), torch.cat((global_v, means[1]), dim=2)
        drop = max(0, k.shape[2] - self._cached)
        return self.project_output(out, x), LongShortState(
            state.position + 1, k[:, :, drop:], v[:, :, drop:], global_k, global_v
        )

    def state_after(self, x: Float[Tensor, "B N E"]) -> LongShortState:
        k, v = self.keys_values(x)
        count = x.shape[1] // self.segment_size
        with full_precision(k, v) as (all_k, all_v):
            all_k, logits = all_k.split((self.head_width, self.rank), dim=-1)
            means = self._means(self._of_segments(logits, count).softmax(-1), all_k, all_v)
        drop = max(0, x.shape[1] - self._cached)
        return LongShortState(x.shape[1], k[:, :, drop:], v[:, :, drop:], *means)

    @property
    def _cached(self) -> int:
        """Positions that the next step needs: the rest of its window, and of its segment."""
        return max(self.window_size, self.segment_size) - 1

    def state_size(self, length: int) -> int:
        means = length // self.segment_size * self.rank
        row = 2 * self.head_width + self.rank
        return self.n_heads * (min(length, self._cached) * row + means * 2 * self.head_width)


def _projected(p: Float[Tensor, "B H G R S"], x: Float[Tensor, "B H M C"]) -> Float[Tensor, "B H GR C"]:
    """P^T X of every segment, concatenated."""
    count, size = p.shape[2], p.shape[4]
    return (p @ x[:, :, : count * size].unflatten(2, (count, size))).flatten(2, 3)
