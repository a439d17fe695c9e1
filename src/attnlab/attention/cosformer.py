"""cosFormer: linear attention on relu features, with weights that fall with distance like a cosine (Qin et al. 2022,
"cosFormer: Rethinking softmax in attention", section 2).

    out_i = sum_j s_ij v_j / max(sum_j s_ij, eps),   s_ij = phi(q_i) . phi(k_j) cos((pi / 2) (i - j) / M),   phi = relu

The cosine of a difference is a sum of products, so s_ij is a product of features of twice the width:

    [phi(x) sin(pi i / 2M), phi(x) cos(pi i / 2M)],   positions i from 1, for queries and keys alike

Cost O(N D^2), about twice the cost of linear attention. Supports bidirectional, causal (in chunks), cross and step
(constant cost per token: running sums). No scaling by 1/sqrt(D), as published.

M is a choice of its own (`length_from`). Distances above M would have negative weights, so no form computes them.

    config  the longest sequence of the task over all its splits, test splits included: the default. So the length of
            the longest test sequence enters training, and with M far above the lengths of training all trained weights
            are near 1 (SCAN at cutoff 26: M = 49, and the longest training sequence has 27 tokens; a distance of 26
            has weight 0.67, with M = 27 it has 0.06). Real positions beyond M are refused.
    train   the longest training sequence: no test length enters training. Positions beyond M count as position M: they
            meet each other with weight 1 at any distance, and earlier positions as M does, so no weight is negative.
            On SCAN (cutoff 26, width 64, 900 steps, one seed) 84 % of the tokens beyond position 27 are right this way,
            and 39 % with the negative weights, from the same trained weights and given the tokens before.
    batch   as published: the longer of the padded source and target of the current batch. Outputs of a sample depend on
            its padding and on other samples, and there is no step form, since a step does not know the length.

The output of a query without a common feature is 0.
"""

import math
from typing import Any, ClassVar, Literal, Unpack

import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.attention.base import TooLong
from attnlab.attention.core.linear_core import (
    FEATURE_MAPS,
    FeatureMapAttention,
    FeatureMapOptions,
    LinearState,
    PositiveFeatureMap,
)
from attnlab.attention.core.tensor_types import KeyMask, Keys, Memory, Queries
from attnlab.config.schema import Count, NonNegative


class CosFormer(FeatureMapAttention):
    """Linear attention with cosine re-weighting.

    Args:
        d_model, n_heads, options: as in FeatureMapAttention; features are normalised before re-weighting.
        max_length: M for `length_from=config`.
        train_length: M for `length_from=train`.
        length_from: the length M: config = longest of all splits; train = longest in training; batch = the longer one
            of queries and keys, padding included.
        feature_map: of queries and keys.
        eps: smallest denominator.

    Raises:
        ValueError: length_from=config without max_length, or length_from=train without train_length.
        TooLong: in forward and step with length_from=config, a real position beyond max_length.
    """

    cross_equals_self = True
    limits: ClassVar[dict[str, dict[Any, list[str]]]] = {"length_from": {"batch": ["supports_step"]}}

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        max_length: Count | None = None,
        train_length: Count | None = None,
        length_from: Literal["config", "train", "batch"] = "config",
        feature_map: PositiveFeatureMap = "relu",
        eps: NonNegative = 1e-6,
        **options: Unpack[FeatureMapOptions],
    ) -> None:
        super().__init__(d_model, n_heads, eps=eps, **options)
        if length_from == "config" and max_length is None:
            raise ValueError("CosFormer: max_length is missing; expected the length of the longest sequence")
        if length_from == "train" and train_length is None:
            raise ValueError("CosFormer: train_length is missing; expected the length of the longest training sequence")
        self.feature_map, self.length_from = FEATURE_MAPS[feature_map], length_from
        self.max_length = {"config": max_length, "train": train_length, "batch": None}[length_from]

    def query_map(self, q: Queries) -> Float[Tensor, "B H N F"]:
        return self.feature_map(q)

    def divisor(self, total: Float[Tensor, "B H N 1"], q: Float[Tensor, "B H N F"]) -> Float[Tensor, "B H N 1"]:
        return total.clamp(min=self.eps)

    @property
    def feature_width(self) -> int:
        return 2 * self.n_features

    def with_positions(self, features: Float[Tensor, "B H N F"], first: int) -> Float[Tensor, "B H N F2"]:
        """Re-weighted features; unchanged with `length_from=batch`, where `features` does it for queries and keys."""
        return features if self.max_length is None else _reweighted(features, first, self.max_length)

    def features(
        self, q: Queries, k: Keys, mask: KeyMask | None, causal: bool
    ) -> tuple[Float[Tensor, "B H N F"], Float[Tensor, "B H M F"]]:
        longest = max(q.shape[2], k.shape[2])
        self._require_room(longest, mask)
        if self.max_length is not None:
            return super().features(q, k, mask, causal)
        q, k = super().features(q, k, mask, causal)
        return _reweighted(q, 0, longest), _reweighted(k, 0, longest)

    def init_state(self, batch: int, memory: Memory | None = None, mask: KeyMask | None = None) -> LinearState:
        if self.max_length is None:
            raise NotImplementedError("cosFormer with length_from=batch has no step form; use length_from=config")
        if memory is not None:
            self._require_room(memory.shape[1], mask)
        return super().init_state(batch, memory, mask)

    def step(self, x: Float[Tensor, "B 1 E"], state: LinearState) -> tuple[Float[Tensor, "B 1 E"], LinearState]:
        self._require_room(state.position + 1, None)
        return super().step(x, state)

    def _require_room(self, longest: int, mask: Tensor | None) -> None:
        # The mask is read in this rare case only: a condition on data cannot be traced in one graph.
        limit = self.max_length
        if limit is None or self.length_from == "train" or longest <= limit:
            return
        if mask is not None and _only_padding(mask, limit, longest):
            return
        raise TooLong(
            f"a sequence of {longest} positions with max_length={limit}: cosFormer's weights turn negative "
            "at distances above max_length; train with a larger max_length (a key of the model's attention nodes), "
            "with length_from=train, or with length_from=batch where nothing is decoded"
        )


def _only_padding(mask: Tensor, first: int, longest: int) -> bool:
    """Whether all positions from `first` on are padding; unknown for more queries than keys of the mask."""
    return mask.shape[1] == longest and not bool(mask[:, first:].any())


def _reweighted(features: Tensor, first: int, length: int) -> Tensor:
    """[x sin(pi i / 2M), x cos(pi i / 2M)] for positions from first + 1 on; M = length."""
    # Angles at least in float32: half precision cannot represent positions above 256.
    dtype = torch.promote_types(features.dtype, torch.float32)
    positions = torch.arange(first + 1, first + 1 + features.shape[2], device=features.device, dtype=dtype)
    # Beyond M angles are held at M, where length_from=config has padding only: weights are not negative, outputs small.
    angles = positions.clamp(max=length)[:, None] * (math.pi / (2 * length))
    return torch.cat((features * angles.sin(), features * angles.cos()), dim=-1)
