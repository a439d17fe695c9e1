"""BigBird: sparse attention in blocks (Zaheer et al. 2020, section 2; blocks: appendix D).

    out_i = sum_j softmax_j(q_i . k_j / sqrt(D)) v_j,   j over the real keys of the blocks that i's block sees

Positions are cut into blocks of b. A block sees its neighbours (a window), the global blocks (the first and the last of
the sample), and r random ones of the other blocks; global blocks see all. With g global, w window and r random blocks
it costs O(N b (g + w + r) D), and a table of (N / b)^2 entries per head and sample for the visible blocks.

Supports bidirectional attention only. Not causal and no step: the global blocks see the whole sequence, and the last
one is known only at its end. Not cross: a window needs queries and keys of one sequence.

Blocks are counted on the real positions of each sample, so padding changes nothing. In the published code lengths are
multiples of b, the last block is the last one of the padded length, and random blocks, which depend on this length, are
from the first 1024 positions (at 1024, 3072 and 4096) or the first 2r + 5 blocks. As there, random blocks are drawn
without replacement, independently by head, from blocks that are neither near nor global; but from the whole sample.
Up to `full_length` positions (448 by default) every block sees all blocks, which is softmax attention.
"""

from typing import Unpack

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.attention.base import Attention, AttentionOptions
from attnlab.attention.core.linear_sums import chunks
from attnlab.attention.core.mask_forms import real_lengths
from attnlab.attention.core.softmax_core import fused_softmax, kept, softmax_attention, softmax_weights
from attnlab.attention.core.tensor_types import (
    Attended,
    Queries,
    ScoreHook,
    SelfAttentionWeights,
    SelfKeys,
    SelfMask,
    SelfValues,
)
from attnlab.config.schema import Count, Natural, Probability
from attnlab.kernels.drawn_rows import fill_from_host, rows_at

PRIME = 2**31 - 1


class BigBird(Attention):
    """Block-sparse attention: window, global and random blocks.

    Args:
        d_model, n_heads, options: as in Attention.
        dropout: on the attention weights, in training.
        block_size: positions of a block, b.
        window_blocks: blocks of the window, with the block itself in the middle; an odd number.
        global_first, global_last: number of global blocks at the start and at the end of a sample.
        random_blocks: random blocks that a block sees, drawn for each head; fewer in short samples.
        redraw_every: optimiser steps between two draws of the random blocks; null = never redrawn, as published.

    Raises:
        ValueError: an even number of window blocks.
    """

    supports_causal = False
    supports_cross = False

    coefficients: Tensor

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        dropout: Probability = 0.0,
        block_size: Count = 64,
        window_blocks: Count = 3,
        global_first: Natural = 1,
        global_last: Natural = 1,
        random_blocks: Natural = 3,
        redraw_every: Count | None = None,
        **options: Unpack[AttentionOptions],
    ) -> None:
        super().__init__(d_model, n_heads, **options)
        if window_blocks % 2 == 0:
            raise ValueError(f"window_blocks={window_blocks}: expected an odd number, as many blocks on either side")
        self.dropout, self.redraw_every = dropout, redraw_every
        self.block_size, self.reach, self.random_blocks = block_size, window_blocks // 2, random_blocks
        self.global_first, self.global_last = global_first, global_last
        self.register_buffer("coefficients", _draw(n_heads))

    def redraw(self, generator: torch.Generator) -> None:
        fill_from_host(self.coefficients, _draw(len(self.coefficients), generator))

    @property
    def full_length(self) -> int:
        """Length up to which every block sees all: itself, neighbours on one side, global and random blocks suffice."""
        return (1 + self.reach + self.global_first + self.global_last + self.random_blocks) * self.block_size

    def attend(self, q: Queries, k: SelfKeys, v: SelfValues, mask: SelfMask | None, causal: bool) -> Attended:
        if q.shape[2] <= self.full_length:
            return fused_softmax(q, k, v, mask, False, self.dropout if self.training else 0.0)
        return self.attend_sparsely(q, k, v, mask)

    def attend_sparsely(self, q: Queries, k: SelfKeys, v: SelfValues, mask: SelfMask | None) -> Attended:
        """Every block with the gathered keys of the blocks it sees; then the global blocks with all keys."""
        # Without a mask one table of blocks serves all samples.
        lengths = real_lengths(q[:1], mask)
        q_blocks, k_blocks, v_blocks = (chunks(x, self.block_size) for x in (q, k, v))
        batch, heads, n_blocks = q_blocks.shape[:3]
        sees = self.sees(n_blocks, lengths).expand(batch, -1, -1, -1)
        most = 1 + 2 * self.reach + self.global_first + self.global_last + self.random_blocks
        seen, chosen = sees.int().topk(min(most, n_blocks))
        position = chosen[..., None] * self.block_size + torch.arange(self.block_size, device=q.device)
        keep = (position < lengths[:, None, None, None, None]) & seen.bool()[..., None]
        out = softmax_attention(
            q_blocks.flatten(1, 2),
            gathered(k_blocks, chosen).flatten(1, 2),
            gathered(v_blocks, chosen).flatten(1, 2),
            keep.flatten(3).flatten(1, 2)[:, :, None],
            False,
            self.dropout if self.training else 0.0,
        ).unflatten(1, (heads, n_blocks))
        for here, rows in self._global_rows(q_blocks, k, v, mask, lengths):
            out = torch.where(here, rows, out)
        return out.flatten(2, 3)[:, :, : q.shape[2]]

    def _global_rows(
        self, q_blocks: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, lengths: Tensor
    ) -> list[tuple[Tensor, Tensor]]:
        """For each global block, a mask of it among all blocks, and its output over the whole sequence."""
        batch, heads, n_blocks = q_blocks.shape[:3]
        first = torch.arange(self.global_first, device=k.device).expand(batch, -1)
        last = self._n_real(lengths)[:, None] - 1 - torch.arange(self.global_last, device=k.device)
        # Clamped: in a short sample missing global blocks become other global blocks.
        which = torch.cat((first, last.expand(batch, -1)), dim=1).clamp(0, n_blocks - 1)
        if not which.shape[1]:
            return []
        queries = gathered(q_blocks, which[:, None, None].expand(-1, heads, -1, -1))[:, :, 0]
        rows = fused_softmax(queries, k, v, mask, False, self.dropout if self.training else 0.0)
        here = torch.arange(n_blocks, device=k.device) == which[:, :, None]
        pairs = zip(here.unbind(1), rows.unflatten(2, (-1, self.block_size)).split(1, dim=2), strict=True)
        return [(rows[:, None, :, None, None], row) for rows, row in pairs]

    def weights(
        self, q: Queries, k: SelfKeys, mask: SelfMask | None, causal: bool, score_hook: ScoreHook | None = None
    ) -> SelfAttentionWeights:
        length, size = q.shape[2], self.block_size
        scores = q @ k.transpose(-1, -2) * self.head_width**-0.5
        scores = scores if score_hook is None else score_hook(scores)
        n_blocks, lengths = -(-length // size), real_lengths(q[:1], mask)
        sees = self.sees(n_blocks, lengths) | self._is_global(n_blocks, lengths).transpose(-1, -2)
        sees = sees.repeat_interleave(size, 2).repeat_interleave(size, 3)[:, :, :length, :length]
        return softmax_weights(scores, sees & kept(scores, mask, causal))

    def sees(self, n_blocks: int, lengths: Int[Tensor, " B"]) -> Bool[Tensor, "B H T T"]:
        """Which block (row) sees which; not for rows of global blocks, which see all real blocks."""
        block = torch.arange(n_blocks, device=lengths.device)
        real = block < self._n_real(lengths)[:, None, None, None]
        near = (block[:, None] - block).abs() <= self.reach
        fixed = real & (near | self._is_global(n_blocks, lengths))
        free = real & ~fixed
        ranked = torch.where(free, self.priorities(n_blocks), -1)
        drawn = ranked.topk(min(self.random_blocks, n_blocks)).indices
        return fixed | (free & torch.zeros_like(ranked, dtype=torch.bool).scatter(-1, drawn, True))

    def priorities(self, n_blocks: int) -> Int[Tensor, "H T T"]:
        """A random number for each head and pair of blocks; the highest numbers of a row are its random blocks.

        Polynomials of degree 3 modulo a prime (four-wise independent: Wegman & Carter 1981), with random coefficients,
        not a table: they do not depend on the longest length, so padding cannot change them.
        """
        block = torch.arange(n_blocks, device=self.coefficients.device)
        pair = block[:, None] * 2**15 + block
        value = torch.zeros_like(pair)
        for coefficient in self.coefficients[:, :, None, None].unbind(1):
            value = (value * pair + coefficient) % PRIME
        return value

    def _n_real(self, lengths: Tensor) -> Tensor:
        return (lengths + self.block_size - 1) // self.block_size

    def _is_global(self, n_blocks: int, lengths: Tensor) -> Tensor:
        """Mask of the global blocks (B, 1, 1, T)."""
        block = torch.arange(n_blocks, device=lengths.device)
        return (block < self.global_first) | (block >= self._n_real(lengths)[:, None, None, None] - self.global_last)


def _draw(n_heads: int, generator: torch.Generator | None = None) -> Int[Tensor, "H 4"]:
    device = None if generator is None else generator.device
    return torch.randint(1, PRIME, (n_heads, 4), generator=generator, device=device)


def gathered(x: Float[Tensor, "B H T S C"], which: Int[Tensor, "B H R K"]) -> Float[Tensor, "B H R KS C"]:
    """The K blocks of every row, concatenated."""
    rows = rows_at(x.flatten(3), which.flatten(2))
    return rows.unflatten(2, which.shape[2:]).unflatten(-1, x.shape[3:]).flatten(3, 4)
