"""Doubly normalised attention: softmax over queries, then over keys (Ding et al. 2020, "Attention that does not Explain
Away", arXiv 2009.14308).

    c_ij = exp(s_ij) / sum over queries i' of exp(s_i'j),   s_ij = q_i . k_j / sqrt(D)
    out_i = sum_j w_ij v_j,   w_ij = c_ij / sum over keys j' of c_ij'

So w_i is softmax_j(s_ij - b_j), where b_j is the log of key j's sum over queries. With M keys the weights of every key
sum to 1/M at least over the queries, since sum_j' c_ij' is at most M: no key is left out by all queries ("explained
away"), as it can be in softmax attention.

Cost O(N M D) time and O(N M) memory for the scores. Supports the bidirectional form. No causal form and no step: the
sum of a key is over all queries, so the past would depend on the future. No cross-attention: queries have no mask
there, so padded queries would enter the sums, and in a decoder later ones too. Padded positions enter no sum.

Only the paper's abstract and introduction could be read, and no code was public. They say: two normalisations, derived
from a Gaussian mixture, with a guarantee against keys that are explained away. The order, queries first, is the one
with this guarantee. Not established: the factor 1/sqrt(D) (here as in softmax attention), dropout, what the paper's
decoders do, and whether it mixes this attention with softmax attention; there is no mixture here.
"""

from typing import Unpack

from torch import Tensor

from attnlab.attention.base import Attention, AttentionOptions, State
from attnlab.attention.core.mask_forms import padded_heads_of
from attnlab.attention.core.softmax_core import kept, softmax_weights
from attnlab.attention.core.sum_precision import full_precision
from attnlab.attention.core.tensor_types import (
    Attended,
    Queries,
    ScoreHook,
    SelfAttentionWeights,
    SelfKeys,
    SelfMask,
    SelfValues,
)
from attnlab.config.schema import Probability
from attnlab.kernels.dropout import dropped


class DoublyNormalizedAttention(Attention[State]):
    """Softmax attention with scores that are normalised over queries first.

    Args:
        d_model, n_heads, options: as in Attention.
        dropout: on the weights, in training.
    """

    supports_causal = False
    supports_cross = False

    def __init__(
        self, d_model: int, n_heads: int, *, dropout: Probability = 0.0, **options: Unpack[AttentionOptions]
    ) -> None:
        super().__init__(d_model, n_heads, **options)
        self.dropout = dropout

    def attend(self, q: Queries, k: SelfKeys, v: SelfValues, mask: SelfMask | None, causal: bool) -> Attended:
        weights = self._weights(q, k, mask, None).to(v.dtype)
        return dropped(weights, self.dropout, self.training) @ v

    def weights(
        self, q: Queries, k: SelfKeys, mask: SelfMask | None, causal: bool, score_hook: ScoreHook | None = None
    ) -> SelfAttentionWeights:
        return self._weights(q, k, mask, score_hook).to(q.dtype)

    def _weights(self, q: Tensor, k: Tensor, mask: Tensor | None, score_hook: ScoreHook | None) -> Tensor:
        with full_precision(q, k) as (q, k):
            scores = (q * self.head_width**-0.5) @ k.transpose(-1, -2)
            scores = scores if score_hook is None else score_hook(scores)
            # A number, not -inf: a sample without real positions has no sum.
            real = scores if mask is None else scores.masked_fill(padded_heads_of(mask), _LOWEST)
            return softmax_weights(scores - real.logsumexp(-2, keepdim=True), kept(scores, mask, False))


_LOWEST = -1e30
"""score of a padded query, whose exponential is 0 beside every other one"""
