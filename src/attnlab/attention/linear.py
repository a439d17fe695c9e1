"""Linear attention with the feature map elu + 1 (Katharopoulos et al. 2020, sections 3.2 to 3.4), and its variants with
normalised queries and keys and the orthogonality loss (Park & Kim 2024).

    out_i = phi(q_i / sqrt(D)) S / (phi(q_i / sqrt(D)) z + eps),  phi(x) = elu(x) + 1,  S, z: sums over keys

Cost O(N D^2). Supports bidirectional, causal (in chunks), cross and step (constant cost per token: running sums).
The scaling of queries before phi and eps = 1e-5 follow the public code of Park & Kim's first author; the original has
no scaling and eps = 1e-6: `scale_queries: false, eps: 1e-6`.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from attnlab.attention import linear_core
from attnlab.attention.base import Attention, Initialization, State
from attnlab.attention.normalization import HeadNorm
from attnlab.config.schema import Normalization


@dataclass(frozen=True)
class LinearState(State):
    """Running sum of phi(k) v^T over the tokens read so far, or over the memory; z is its last column."""

    sums: Float[Tensor, "B H F C"]
    cross: bool


class LinearAttention(Attention):
    """Linear attention, phi = elu + 1.

    Args:
        d_model, n_heads, bias, initialization, orthogonality: as in Attention.
        normalization: kind, placement and denominator (config.schema.Normalization).
        scale_queries: multiply queries by 1/sqrt(D) before phi.
        eps: added to the denominator.
        chunk_size: positions a chunk of the causal form; no effect on results but rounding.
    """

    supports_orthogonality = True

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        bias: bool = True,
        normalization: Normalization | None = None,
        scale_queries: bool = True,
        eps: float = 1e-5,
        chunk_size: int = 64,
        orthogonality: bool = False,
        initialization: Initialization = "torch",
    ) -> None:
        super().__init__(d_model, n_heads, bias=bias, initialization=initialization, orthogonality=orthogonality)
        normalization = normalization or Normalization()
        self.norm_first = normalization.placement == "before_feature_map"
        self.denominator = normalization.denominator
        self.q_norm = HeadNorm(normalization.kind, self.head_width)
        self.k_norm = HeadNorm(normalization.kind, self.head_width)
        self.scale = self.head_width**-0.5 if scale_queries else 1.0
        self.eps, self.chunk_size = eps, chunk_size

    def features(self, x: Float[Tensor, "B H N D"], norm: HeadNorm) -> Float[Tensor, "B H N D"]:
        """phi of queries or keys, normalised before or after."""
        return F.elu(norm(x)) + 1.0 if self.norm_first else norm(F.elu(x) + 1.0)

    def attend(
        self,
        q: Float[Tensor, "B H N D"],
        k: Float[Tensor, "B H M D"],
        v: Float[Tensor, "B H M D"],
        mask: Bool[Tensor, "B M"] | None,
        causal: bool,
    ) -> Float[Tensor, "B H N D"]:
        dtype = v.dtype
        with linear_core.full_precision(q, k, v) as (q, k, v):
            q = self.features(q * self.scale, self.q_norm)
            k, v = self._keys_values(k, v, mask)
            out = linear_core.causal(q, k, v, self.chunk_size) if causal else linear_core.bidirectional(q, k, v)
            return self._finish(out).to(dtype)

    def _keys_values(self, k: Tensor, v: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        k = linear_core.mask_keys(self.features(k, self.k_norm), mask)
        return k, linear_core.with_ones(v) if self.denominator else v

    def _finish(self, out: Tensor) -> Tensor:
        return linear_core.divide(out, self.eps) if self.denominator else out

    def init_state(
        self, batch: int, memory: Float[Tensor, "B M E"] | None = None, mask: Bool[Tensor, "B M"] | None = None
    ) -> LinearState:
        if memory is None:
            shape = (batch, self.n_heads, self.head_width, self.head_width + int(self.denominator))
            dtype = torch.promote_types(self.q_proj.weight.dtype, torch.float32)
            return LinearState(0, self.q_proj.weight.new_zeros(shape, dtype=dtype), cross=False)
        with linear_core.full_precision(*self.memory_keys_values(memory, mask)) as (k, v):
            return LinearState(0, linear_core.key_value_sum(*self._keys_values(k, v, mask)), cross=True)

    def step(self, x: Float[Tensor, "B 1 E"], state: LinearState) -> tuple[Float[Tensor, "B 1 E"], LinearState]:
        sums = state.sums if state.cross else self._with_token(state.sums, x)
        q = self.split_heads(self.q_proj(x))
        with linear_core.full_precision(q) as (q,):
            out = self._finish(self.features(q * self.scale, self.q_norm) @ sums)
        return self.out_proj(self.join_heads(out.to(x.dtype))), LinearState(state.position + 1, sums, state.cross)

    def _with_token(self, sums: Tensor, x: Tensor) -> Tensor:
        """The sums with one more token: an outer product a head, twice as fast as a matrix product of width one."""
        k, v = self.keys_values(x)
        with linear_core.full_precision(k, v) as (k, v):
            k, v = self._keys_values(k, v, None)
            return torch.addcmul(sums, k.transpose(-1, -2), v)

    def state_size(self, length: int) -> int:
        return self.n_heads * self.head_width * (self.head_width + int(self.denominator))
