"""LSH attention of the Reformer (Kitaev et al. 2020, section 2): every token attends to tokens of similar direction.

    out_i = sum_r sum_{j in P_ir} exp(q_i . k_j) v_j / sum_r sum_{j in P_ir} exp(q_i . k_j),   k_j = q_j / |q_j|

In round r tokens are sorted by the hash argmax([q R_r; -q R_r]), R_r random, within a bucket by position, and cut into
chunks; P_ir contains the other tokens of i's chunk and the tokens of the previous chunk. A token attends to itself only
if there is no other. Queries and keys share one projection. Each round is a softmax within chunks; rounds are weighted
by their logsumexp, which gives the quotient above: a pair that meets in several rounds counts in each.
Cost O(R N (chunk_size + n_buckets) D + R N log N) for R rounds; a sequence of at most one chunk has full attention.

Supports the bidirectional form. No causal form and no step: later tokens have an influence on the chunks of
earlier ones, so the past would depend on the future. No cross-attention: keys are the queries themselves.

As in Hugging Face's LSHSelfAttention, which Skyformer used on LRA with 2 rounds: chunks of 64, tokens of other buckets
in the chunks are seen (the paper's formula masks them), no 1/sqrt(D), no correction for pairs that meet several times
(the paper divides by their number). Different here: padding is sorted after all real tokens, so that chunks depend on
real tokens only; the first chunk has no previous one, as in the paper's formula (in the code it is the last chunk of
another round); the number of buckets depends on the task's longest sequence, not on the batch; rotations are shared by
the heads and redrawn between optimiser steps (in the code at every forward).
"""

import math
from typing import Unpack

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from attnlab.attention.base import Attention, AttentionOptions
from attnlab.attention.core.mask_forms import real_lengths, zero_at_padding
from attnlab.attention.core.sum_precision import full_precision
from attnlab.attention.core.tensor_types import Attended, Memory, Queries, SelfKeys, SelfMask, SelfValues
from attnlab.config.schema import Count, Probability
from attnlab.kernels.drawn_rows import fill_from_host, rows_at
from attnlab.kernels.dropout import dropped
from attnlab.kernels.linear_map import LinearMap

# Added to the mean square of a query before its root, as published; keeps gradients finite at zero vectors.
EPS = 1e-6


def unit(x: Float[Tensor, "*rest D"]) -> Float[Tensor, "*rest D"]:
    """Scaled to length 1 over the last axis."""
    return x * (x.square().sum(-1, keepdim=True) + x.shape[-1] * EPS).rsqrt()


class Reformer(Attention):
    """Attention among tokens of similar hashes.

    Args:
        d_model, n_heads, options: as in Attention.
        max_length: length of the longest sequence, for the default of n_buckets.
        n_hashes: rounds of hashing, R.
        chunk_size: tokens a chunk.
        n_buckets: buckets of a round, even; null = 2 ceil(max_length / chunk_size): a chunk is two buckets long, as in
            the paper.
        redraw_every: optimiser steps between two draws of the rotations; null = never. At every step by default: the
            published code draws even more often, and n_hashes x D x n_buckets / 2 random numbers cost almost nothing.
        dropout: on the attention weights, in training.

    Raises:
        ValueError: n_buckets is not even.
    """

    supports_causal = False
    supports_cross = False

    rotations: Tensor

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        max_length: Count = 1024,
        n_hashes: Count = 2,
        chunk_size: Count = 64,
        n_buckets: Count | None = None,
        redraw_every: Count | None = 1,
        dropout: Probability = 0.0,
        **options: Unpack[AttentionOptions],
    ) -> None:
        super().__init__(d_model, n_heads, **options)
        n_buckets = 2 * math.ceil(max_length / chunk_size) if n_buckets is None else n_buckets
        if n_buckets % 2:
            raise ValueError(f"n_buckets={n_buckets}: must be even, a bucket and its opposite")
        self.n_hashes, self.chunk_size, self.n_buckets = n_hashes, chunk_size, n_buckets
        self.redraw_every, self.dropout = redraw_every, dropout
        self.register_buffer("rotations", torch.randn(n_hashes, self.head_width, n_buckets // 2))

    def make_projections(self, d_model: int, bias: bool) -> None:
        self.qk_proj, self.v_proj, self.out_proj = (LinearMap(d_model, d_model, bias=bias) for _ in range(3))

    def redraw(self, generator: torch.Generator) -> None:
        fill_from_host(self.rotations, torch.randn(self.rotations.shape, generator=generator, device="cpu"))

    def queries(self, x: Float[Tensor, "B N E"]) -> Float[Tensor, "B H N D"]:
        return self.split_heads(self.qk_proj(x))

    def keys_values(self, source: Memory) -> tuple[Float[Tensor, "B H M D"], Float[Tensor, "B H M C"]]:
        """Unscaled keys, which `attend` scales to length 1, and values."""
        return self.queries(source), self.split_heads(self.v_proj(source))

    def attend(self, q: Queries, k: SelfKeys, v: SelfValues, mask: SelfMask | None, causal: bool) -> Attended:
        dtype = v.dtype
        with full_precision(q, k, v) as (q, k, v):
            lengths = real_lengths(q, mask)
            one_chunk = q.shape[2] <= self.chunk_size
            out = self._in_full(q, unit(k), v, lengths) if one_chunk else self._in_rounds(q, unit(k), v, mask, lengths)
            return zero_at_padding(out, mask).to(dtype)

    def _in_full(self, q: Tensor, k: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
        """Attention in a single chunk, whose order does not matter."""
        slots = torch.arange(q.shape[2], device=q.device)
        scores = _scores(q, k, slots, slots, lengths[:, None, None])
        return self._drop(scores.softmax(-1)) @ v

    def _in_rounds(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, lengths: Tensor) -> Tensor:
        """Attention in every round, then their weighted mean."""
        order = self.order(q, mask)
        rows = rows_at(torch.cat((q, k, v), dim=-1), order.flatten(2)).unflatten(2, order.shape[2:])
        rows = F.pad(rows, (0, 0, 0, -q.shape[2] % self.chunk_size)).unflatten(3, (-1, self.chunk_size))
        q, k, v = rows.split((q.shape[-1], k.shape[-1], v.shape[-1]), dim=-1)
        slots = torch.arange(rows.shape[3] * self.chunk_size, device=q.device).unflatten(0, (-1, self.chunk_size))
        key_slots = torch.cat((slots - self.chunk_size, slots), dim=-1)
        scores = _scores(q, _with_chunk_before(k), slots, key_slots, lengths[:, None, None, None, None])
        out = self._drop(scores.softmax(-1)) @ _with_chunk_before(v)
        inverse_order = order.argsort(-1)
        both = torch.cat((out, scores.logsumexp(-1, keepdim=True)), dim=-1)
        out, total = rows_at(both.flatten(3, 4), inverse_order).split((out.shape[-1], 1), dim=-1)
        return (out * total.softmax(2)).sum(2)

    def buckets(self, q: Queries) -> Int[Tensor, "B H R N"]:
        """The bucket of every token in every round."""
        rotated = q.detach()[:, :, None] @ self.rotations.to(q.dtype)
        return torch.cat((rotated, -rotated), dim=-1).argmax(-1)

    def order(self, q: Queries, mask: SelfMask | None) -> Int[Tensor, "B H R N"]:
        """Positions sorted by bucket, then by position; padding last."""
        buckets = self.buckets(q)
        buckets = buckets if mask is None else buckets.masked_fill(~mask[:, None, None], self.n_buckets)
        return buckets.argsort(dim=-1, stable=True)

    def _drop(self, weights: Tensor) -> Tensor:
        return dropped(weights, self.dropout, self.training)


def _with_chunk_before(x: Float[Tensor, "*rest chunks size D"]) -> Float[Tensor, "*rest chunks 2*size D"]:
    """Every chunk preceded by the previous one; zeros before the first."""
    return torch.cat((F.pad(x[..., :-1, :, :], (0, 0, 0, 0, 1, 0)), x), dim=-2)


def _scores(q: Tensor, k: Tensor, query_slots: Tensor, key_slots: Tensor, lengths: Tensor) -> Tensor:
    """q . k in sorted order: the lowest number at padding, half of it for a token with itself.

    Both have no weight next to another token or round; a token without others attends to itself.
    """
    lowest = torch.finfo(q.dtype).min
    itself = query_slots[..., :, None] == key_slots[..., None, :]
    nothing = (key_slots < 0) | (key_slots >= lengths)
    scores = (q @ k.transpose(-1, -2)).masked_fill(itself, lowest / 2)
    return scores.masked_fill(nothing[..., None, :], lowest)
