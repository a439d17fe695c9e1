"""Both attentions of TransNormer (Qin et al. 2022, "The Devil in Linear Transformer", sections 4.2, 4.3, appendix D).

    NormAttention   out_i = norm(sum_j (phi(q_i) . phi(k_j)) v_j),   norm(x) = x / (rms(x) + 1e-8)
    DiagAttention   out_i = sum over j in the block of i of f(q_i . k_j / sqrt(D)) v_j,   f: softmax or relu (ReLA)

NormAttention has no denominator: a norm over all heads together bounds its output before the output projection.
T1 uses phi = elu and ReLA blocks, with the same norm after them; T2 uses phi = 1 + elu and softmax blocks. The norm has
no gain and its eps is outside the root, as in the published code (inside in appendix D).

Cost: NormAttention O(N D^2), and supports bidirectional, causal (in chunks), cross and step (running sums).
DiagAttention O(N W D) for blocks of W positions; supports bidirectional, causal and step (the state holds the current
block), not cross: the blocks of two sequences do not correspond.

Unlike in the published code padding gets no weight, neither at the end of a sequence nor in the last block. Linear
relative positions (`lrpe`), which the published language models use and the paper does not mention, are an option.
"""

from dataclasses import dataclass, replace
from typing import Literal, Unpack

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from attnlab.attention.base import Attention, AttentionOptions, State
from attnlab.attention.core.linear_core import (
    FEATURE_MAPS,
    FeatureMap,
    FeatureMapAttention,
    mask_keys,
)
from attnlab.attention.core.linear_sums import chunks
from attnlab.attention.core.score_position import Lrpe
from attnlab.attention.core.softmax_core import fused_softmax, kept, softmax_weights
from attnlab.attention.core.sum_precision import full_precision
from attnlab.attention.core.tensor_types import (
    Attended,
    KeyMask,
    Memory,
    Queries,
    ScoreHook,
    SelfAttentionWeights,
    SelfKeys,
    SelfMask,
    SelfValues,
)
from attnlab.config.schema import Count, Normalization, Probability
from attnlab.kernels.dropout import dropped

LrpeKind = Literal["none", "rotary", "householder_rotary"]

EPS = 1e-8


def simple_rms_norm(x: Float[Tensor, "*rest E"]) -> Float[Tensor, "*rest E"]:
    """x / (rms(x) + eps) over the last axis; finite, gradients included, for every finite x and for zero vectors."""
    # Divided by the peak first, so that no square overflows; the result does not depend on the peak.
    peak = x.detach().abs().amax(-1, keepdim=True)
    nothing = (peak == 0).to(x.dtype)
    rms = peak * ((x / (peak + nothing)).square().mean(-1, keepdim=True) + nothing).sqrt()
    return x / (rms + EPS)


def lrpe_of(kind: LrpeKind, width: int) -> Lrpe | None:
    """Linear relative positions of a kind, or None."""
    return None if kind == "none" else Lrpe(kind, width)


class NormAttention(FeatureMapAttention):
    """Linear attention with a norm instead of the denominator.

    Args:
        d_model, n_heads, options: as in Attention.
        normalization: kind and placement as in FeatureMapAttention; its denominator is ignored.
        feature_map: of queries and keys; features may be negative.
        norm: rms_norm = the norm above; layer_norm = LayerNorm with gain and bias. Either over all heads together.
        lrpe: positional encoding of the features (attnlab.attention.core.score_position).
        chunk_size: as in FeatureMapAttention.
    """

    cross_equals_self = True

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        feature_map: FeatureMap = "one_plus_elu",
        norm: Literal["rms_norm", "layer_norm"] = "rms_norm",
        lrpe: LrpeKind = "none",
        normalization: Normalization | None = None,
        chunk_size: Count = 64,
        **options: Unpack[AttentionOptions],
    ) -> None:
        normalization = replace(normalization or Normalization(), denominator=False)
        super().__init__(d_model, n_heads, eps=0.0, normalization=normalization, chunk_size=chunk_size, **options)
        self.feature_map = feature_map
        self.layer_norm = nn.LayerNorm(d_model) if norm == "layer_norm" else None
        self.lrpe = lrpe_of(lrpe, self.head_width)

    def query_map(self, q: Queries) -> Float[Tensor, "B H N F"]:
        return FEATURE_MAPS[self.feature_map](q)

    def with_positions(self, features: Float[Tensor, "B H N F"], first: int) -> Float[Tensor, "B H N F"]:
        if self.lrpe is None:
            return features
        return self.lrpe(features, torch.arange(first, first + features.shape[2], device=features.device))

    def cast_output(self, out: Float[Tensor, "B H N C"], dtype: torch.dtype) -> Float[Tensor, "B H N C"]:
        # Sums without a denominator may exceed the range of float16 before the norm.
        return out

    def project_output(self, out: Float[Tensor, "B H N C"], x: Float[Tensor, "B N E"]) -> Float[Tensor, "B N E"]:
        with full_precision(self.join_heads(out)) as (y,):
            y = simple_rms_norm(y) if self.layer_norm is None else _layer_normed(y, self.layer_norm)
        return self.out_proj(y.to(x.dtype))


def _layer_normed(y: Tensor, norm: nn.LayerNorm) -> Tensor:
    """A layer norm in the format of its input."""
    return F.layer_norm(y, norm.normalized_shape, norm.weight.to(y.dtype), norm.bias.to(y.dtype), norm.eps)


@dataclass(frozen=True)
class BlockState(State):
    """Keys (with positional encoding) and values of the current block, up to the last token read."""

    k: Float[Tensor, "B H W D"]
    v: Float[Tensor, "B H W D"]


class DiagAttention(Attention[BlockState]):
    """Attention within blocks of neighbouring positions, which do not overlap.

    Args:
        d_model, n_heads, options: as in Attention.
        dropout: on the weights, in training.
        block_size: positions of a block.
        scores: softmax, or rela = relu of the scores, and the norm of NormAttention over the joined heads.
        lrpe: positional encoding of queries and keys, counted from the start of each block.
    """

    supports_cross = False
    supports_step = True

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        dropout: Probability = 0.0,
        block_size: Count = 64,
        scores: Literal["softmax", "rela"] = "softmax",
        lrpe: LrpeKind = "none",
        **options: Unpack[AttentionOptions],
    ) -> None:
        super().__init__(d_model, n_heads, **options)
        self.dropout, self.block_size, self.scores = dropout, block_size, scores
        self.lrpe = lrpe_of(lrpe, self.head_width)

    def with_positions(self, x: Float[Tensor, "B H N D"], first: int) -> Float[Tensor, "B H N D"]:
        """Queries or keys with positional encoding; `first` is the position of the first row."""
        if self.lrpe is None:
            return x
        return self.lrpe(x, torch.arange(first, first + x.shape[2], device=x.device) % self.block_size)

    def attend(self, q: Queries, k: SelfKeys, v: SelfValues, mask: SelfMask | None, causal: bool) -> Attended:
        batch, n_heads, length, _ = v.shape
        size = min(self.block_size, length)
        if mask is None and length % size:
            mask = torch.ones(batch, length, dtype=torch.bool, device=v.device)
        mask = None if mask is None else _blocks(mask[:, None, :, None].expand(-1, n_heads, -1, 1), size)[:, 0, :, 0]
        q, k, v = (_blocks(x, size) for x in (self.with_positions(q, 0), self.with_positions(k, 0), v))
        out = self._within(q, k, v, mask, causal)
        return out.reshape(batch, n_heads, -1, out.shape[-1])[:, :, :length]

    def _within(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        """Attention inside blocks, which form the batch; the mask has a row for each block."""
        dropout = self.dropout if self.training else 0.0
        if self.scores == "softmax":
            return fused_softmax(q, k, v, mask, causal, dropout)
        # A key of zeros has score 0, and so weight 0.
        with full_precision(q, mask_keys(k, mask), v) as (q, k, v):
            weights = F.relu(q @ k.transpose(-1, -2) * self.head_width**-0.5)
            return dropped(weights.tril() if causal else weights, dropout) @ v

    def project_output(self, out: Float[Tensor, "B H N C"], x: Float[Tensor, "B N E"]) -> Float[Tensor, "B N E"]:
        if self.scores == "softmax":
            return super().project_output(out, x)
        with full_precision(self.join_heads(out)) as (y,):
            y = simple_rms_norm(y)
        return self.out_proj(y.to(x.dtype))

    def weights(
        self, q: Queries, k: SelfKeys, mask: SelfMask | None, causal: bool, score_hook: ScoreHook | None = None
    ) -> SelfAttentionWeights:
        """Scores are of all pairs of positions; weights outside of blocks are 0."""
        scores = self.with_positions(q, 0) @ self.with_positions(k, 0).transpose(-1, -2) * self.head_width**-0.5
        scores = scores if score_hook is None else score_hook(scores)
        block = torch.arange(q.shape[2], device=q.device) // self.block_size
        keep = kept(scores, mask, causal) & (block[:, None] == block)
        return softmax_weights(scores, keep) if self.scores == "softmax" else F.relu(scores).masked_fill(~keep, 0.0)

    def init_state(self, batch: int, memory: Memory | None = None, mask: KeyMask | None = None) -> BlockState:
        return BlockState(0, *self.no_keys_values(batch))

    def step(self, x: Float[Tensor, "B 1 E"], state: BlockState) -> tuple[Float[Tensor, "B 1 E"], BlockState]:
        k, v = self.keys_values(x)
        q, k = self.with_positions(self.queries(x), state.position), self.with_positions(k, state.position)
        if state.position % self.block_size:
            k, v = torch.cat((state.k, k), dim=2), torch.cat((state.v, v), dim=2)
        return self.project_output(self._within(q, k, v, None, False), x), BlockState(state.position + 1, k, v)

    def state_after(self, x: Float[Tensor, "B N E"]) -> BlockState:
        k, v = self.keys_values(x)
        # the block of the last position
        start = max(x.shape[1] - 1, 0) // self.block_size * self.block_size
        return BlockState(x.shape[1], self.with_positions(k, 0)[:, :, start:], v[:, :, start:])

    def state_size(self, length: int) -> int:
        """Keys and values of the current block."""
        return 2 * self.d_model * min(length, (length - 1) % self.block_size + 1)


def _blocks(x: Shaped[Tensor, "B H N C"], size: int) -> Shaped[Tensor, "BHK 1 W C"]:
    """The blocks of all heads of all samples as a batch; the last block of a sequence is padded with zeros."""
    # This order needs no copy: positions are after heads in memory.
    return chunks(x, size).flatten(0, 2)[:, None]
