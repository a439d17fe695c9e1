"""Threshold relative attention (Opper et al. 2025, arXiv 2503.23174; formulas as in their notebook TRA_FFL): keys below
a threshold are removed, and distance counts the remaining keys.

    s_ij = q_i . k_j / sqrt(D)                 q, k of every head divided by their root mean square
    key j survives for query i where s_ij > 0 and j <= i;   n_ij = number of surviving keys l with j <= l <= i
    out_i = sum_j softmax over survivors of (s_ij + n_ij g_i) v_j,   g_i = logsigmoid(w . x_i + b) <= 0

and 0 for a query without surviving keys. It needs no other positional encoding. Cost O(N^2 D) time and O(N^2) memory:
counts depend on the whole row, so no fused kernel applies. Counts and threshold are constants to the gradient: removed
keys get none.

Supports causal and step (a cache of keys and values; a step costs O(position)). Not bidirectional: the paper's distance
is not defined for keys after the query. Not cross: there is no distance between positions of two sequences.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from attnlab.attention.base import Initialization
from attnlab.attention.core.softmax_core import CachedAttention, kept, softmax_weights
from attnlab.attention.core.sum_precision import full_precision
from attnlab.attention.core.tensor_types import Attended, AttentionWeights, KeyMask, Keys, Memory, ScoreHook, Values
from attnlab.config.schema import Probability
from attnlab.kernels.dropout import dropped
from attnlab.kernels.linear_map import LinearMap

EPS = 1e-6


class ThresholdRelativeAttention(CachedAttention):
    """Threshold relative attention.

    Biases are as in the notebook, whatever the backbone's are: none in q_proj, k_proj and v_proj, one in out_proj and
    gate_proj. Queries (B, H, N, D + 1) have one more column than keys: the logit of the forget gate, which `attend`
    needs and which is computed from the same input.

    Args:
        d_model, n_heads, initialization, orthogonality: as in Attention.
        dropout: on s_ij + n_ij g_i before the softmax, in training, as in the notebook.
    """

    supports_bidirectional = False
    supports_cross = False

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        dropout: Probability = 0.0,
        orthogonality: bool = False,
        initialization: Initialization = "torch",
    ) -> None:
        super().__init__(d_model, n_heads, bias=False, initialization=initialization, orthogonality=orthogonality)
        self.dropout = dropout

    def make_projections(self, d_model: int, bias: bool) -> None:
        self.q_proj, self.k_proj, self.v_proj = (LinearMap(d_model, d_model, bias=bias) for _ in range(3))
        self.gate_proj, self.out_proj = LinearMap(d_model, self.n_heads), LinearMap(d_model, d_model)

    def queries(self, x: Float[Tensor, "B N E"]) -> Float[Tensor, "B H N Q"]:
        """Normalised queries, with the gate's logit as the last column."""
        return torch.cat((self._normalized(super().queries(x)), self.split_heads(self.gate_proj(x))), dim=-1)

    def query_heads(self, q: Float[Tensor, "B H N Q"]) -> Float[Tensor, "B H N D"]:
        return q[..., :-1]

    def keys_values(self, source: Memory) -> tuple[Float[Tensor, "B H M D"], Float[Tensor, "B H M D"]]:
        k, v = super().keys_values(source)
        return self._normalized(k), v

    def attend(self, q: Float[Tensor, "B H N Q"], k: Keys, v: Values, mask: KeyMask | None, causal: bool) -> Attended:
        return self._read(q, k, v, mask, causal)

    def attend_last(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, position: int
    ) -> Float[Tensor, "B H 1 C"]:
        # The last key of the cache is at the query's position: no key is in the future.
        return self._read(q, k, v, mask, causal=False)

    def weights(
        self,
        q: Float[Tensor, "B H N Q"],
        k: Keys,
        mask: KeyMask | None,
        causal: bool,
        score_hook: ScoreHook | None = None,
    ) -> AttentionWeights:
        """Scores are s_ij, before the threshold."""
        dtype = q.dtype
        with full_precision(q, k) as (q, k):
            return self._weights(q, k, mask, causal, score_hook=score_hook).to(dtype)

    def _read(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        dtype = v.dtype
        with full_precision(q, k, v) as (q, k, v):
            weights = self._weights(q, k, mask, causal, dropout=self.dropout if self.training else 0.0)
            return (weights @ v).to(dtype)

    def _weights(
        self,
        q: Tensor,
        k: Tensor,
        mask: Tensor | None,
        causal: bool,
        *,
        score_hook: ScoreHook | None = None,
        dropout: float = 0.0,
    ) -> Tensor:
        q, gate = q[..., :-1], F.logsigmoid(q[..., -1:])
        scores = q @ k.transpose(-1, -2) * self.head_width**-0.5
        scores = scores if score_hook is None else score_hook(scores)
        survives = (scores > 0) & kept(scores, mask, causal)
        # Number of survivors from key j to the end of the row; in integers, since float sums have no
        # deterministic kernel on a GPU.
        survivors = survives.int()
        up_to = survivors.cumsum(-1, dtype=torch.int32)
        counts = (up_to[..., -1:] - up_to + survivors).to(scores.dtype)
        return softmax_weights(dropped(scores + counts * gate, dropout), survives)

    def _normalized(self, heads: Float[Tensor, "B H N D"]) -> Float[Tensor, "B H N D"]:
        return F.rms_norm(heads, (self.head_width,), eps=EPS)
