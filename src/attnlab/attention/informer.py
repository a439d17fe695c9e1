"""ProbSparse attention of the Informer (Zhou et al. 2021, section 3 and algorithm 1): full attention for a few queries.

    M(q_i) = max_{j in S} q_i . k_j - mean_{j in S} q_i . k_j,   S a random sample of factor * ceil(ln n) keys
    out_i  = softmax(q_i K^T / sqrt(D)) V   for the factor * ceil(ln n) queries of the largest M,   mean(V) for the rest

Cost O(N log N D) time and memory. n is the number of real positions of the example, so that S and the chosen queries
do not depend on padding; there are at least `factor` keys and queries, at most n. For equal M, up to sqrt(eps) of the
largest |q_i . k_j|, the earlier position is chosen.

Supports the bidirectional form. No causal form and no step: a query is chosen by comparison with all others, later ones
included, so the past would depend on the future (the published decoder has this problem too).
No cross-attention: queries have no mask there, so padded queries would compete with real ones.

All queries of a head share one sample, as in algorithm 1 (S = Q K_sample^T); the published code draws one for each
query, and so gathers N log N keys. There, and in the paper's text, pairs outside the sample count as 0, so the sum is
divided by n: `mean_over: sequence`; by default M is as in algorithm 1, max(S) - mean(S). Keys are drawn with
replacement, as published, but between optimiser steps; the published code draws at every forward. Neither applies
dropout to the attention weights. Skyformer's code chooses the factor by the longest length n', factor =
ceil(budget / ln n') with a budget of 128: `factor: null, budget: 128`.
"""

import math
from typing import Literal, Unpack

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlab.attention.base import Attention, AttentionOptions
from attnlab.attention.core.mask_forms import real_lengths, zero_at_padding
from attnlab.attention.core.softmax_core import fused_softmax
from attnlab.attention.core.sum_precision import full_precision
from attnlab.attention.core.tensor_types import Attended, Queries, SelfKeys, SelfMask, SelfValues
from attnlab.config.schema import Count
from attnlab.kernels.drawn_rows import fill_from_host, rows_at

# Draws are integers below 2**DRAW_BITS: fractions would be rounded when a model is cast to another number format.
DRAW_BITS = 31
# No sequence is longer than e**LONGEST_LOG.
LONGEST_LOG = 32


class Informer(Attention):
    """Softmax attention for the queries whose scores vary most, the mean of the values for the others.

    Args:
        d_model, n_heads, options: as in Attention.
        factor: c of the paper: sampled keys, and chosen queries, for each unit of ceil(ln n); null = from `budget`.
        budget: with `factor` null: factor = ceil(budget / ln(max_length)).
        max_length: longest length, for `budget`; networks pass the length of their task's longest sequence.
        mean_over: the mean in a query's measure M is over the sampled keys, or over the sequence with 0 for other keys.
        redraw_every: optimiser steps between two draws of the samples; null = never. At every step by default: the
            published code draws even more often, and 32 x factor numbers per head cost almost nothing.

    Raises:
        ValueError: both factor and budget, or neither.
    """

    supports_causal = False
    supports_cross = False

    draws: Tensor

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        factor: Count | None = 5,
        budget: Count | None = None,
        max_length: Count = 512,
        mean_over: Literal["sample", "sequence"] = "sample",
        redraw_every: Count | None = 1,
        **options: Unpack[AttentionOptions],
    ) -> None:
        super().__init__(d_model, n_heads, **options)
        if budget is not None and factor is None:
            factor = math.ceil(budget / max(1.0, math.log(max_length)))
        elif budget is not None or factor is None:
            raise ValueError(f"factor={factor} and budget={budget}: expected a number for one, and null for the other")
        self.factor, self.mean_over, self.redraw_every = factor, mean_over, redraw_every
        self.register_buffer("draws", torch.randint(2**DRAW_BITS, (n_heads, LONGEST_LOG * factor)))

    def redraw(self, generator: torch.Generator) -> None:
        drawn = torch.randint(2**DRAW_BITS, self.draws.shape, generator=generator, device="cpu")
        fill_from_host(self.draws, drawn)

    def attend(self, q: Queries, k: SelfKeys, v: SelfValues, mask: SelfMask | None, causal: bool) -> Attended:
        length = q.shape[2]
        lengths = real_lengths(q, mask)
        counts, most = self.counts(lengths), min(length, self.factor * max(1, math.ceil(math.log(length))))
        measures = self.measures(q, k, lengths, counts, most)
        # Stable, with padding after all real queries: of equal measures the earlier position comes first.
        chosen = measures.argsort(dim=-1, descending=True, stable=True)[..., :most, None]
        attended = fused_softmax(rows_at(q, chosen[..., 0]), k, v, mask, False)
        average = _mean(v, mask, lengths)
        active = torch.arange(most, device=q.device) < counts[:, None]
        rows = torch.where(active[:, None, :, None], attended, average)
        out = average.expand_as(v).scatter(2, chosen.expand_as(rows), rows)
        return zero_at_padding(out, mask)

    def counts(self, lengths: Int[Tensor, " B"]) -> Int[Tensor, " B"]:
        """Number of sampled keys, and of chosen queries, in sequences of these lengths."""
        # In float64: in float32 a logarithm could be rounded to an integer.
        wanted = self.factor * lengths.clamp(min=1).double().log().ceil().clamp(min=1).long()
        return torch.minimum(wanted, lengths)

    def measures(
        self, q: Queries, k: SelfKeys, lengths: Int[Tensor, " B"], counts: Int[Tensor, " B"], most: int
    ) -> Float[Tensor, "B H N"]:
        """M of every query in units of its rounding error; the lowest number at padding.

        Args:
            counts: sampled keys of each sequence; `most` is the largest count of a sequence of N positions.
        """
        with full_precision(q.detach(), k.detach()) as (q, k):
            lowest = torch.finfo(q.dtype).min
            sample = (self.draws[:, :most] * lengths[:, None, None]) >> DRAW_BITS
            scores = q @ torch.take_along_dim(k, sample[..., None], dim=2).transpose(-1, -2)
            padding = (torch.arange(q.shape[2], device=q.device) >= lengths[:, None])[:, None]
            unused = (torch.arange(most, device=q.device) >= counts[:, None])[:, None, None]
            counted = scores.masked_fill(padding[..., None] | unused, 0.0)
            terms = counts if self.mean_over == "sample" else lengths
            mean = counted.sum(-1) / terms.clamp(min=1)[:, None, None]
            measures = scores.masked_fill(unused, lowest).amax(-1) - mean
            # Equal tokens have equal M up to rounding, which depends on shapes, and so on padding.
            largest = counted.abs().amax((-1, -2)).clamp(min=torch.finfo(q.dtype).tiny)[..., None]
            return (measures / largest / torch.finfo(q.dtype).eps ** 0.5).round().masked_fill(padding, lowest)


def _mean(v: SelfValues, mask: SelfMask | None, lengths: Int[Tensor, " B"]) -> Float[Tensor, "B H 1 C"]:
    """Mean of the values of real positions; zeros without any."""
    dtype = v.dtype
    with full_precision(v) as (v,):
        v = zero_at_padding(v, mask)
        return (v.sum(2, keepdim=True) / lengths.clamp(min=1)[:, None, None, None]).to(dtype)
