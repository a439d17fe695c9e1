"""A kind of task and a positional encoding of a user's own, named by their dotted paths."""

from typing import Any

import torch
from torch import Tensor

from attnlab.attention.positions.base import InScores, Positions
from attnlab.tasks.kinds.tagging import TaggingKind
from support.parity_task import Parity

SLOPE = 0.5


class Halved(TaggingKind):
    """Tagging with half of the loss."""

    def loss(self, network: Any, batch: Any) -> tuple[Tensor, Tensor]:
        loss, penalty = super().loss(network, batch)
        return loss / 2, penalty


class HalvedParity(Parity):
    """Parity of ones so far, with half of the loss."""

    kind = "support.own_classes.Halved"


class Decay(Positions):
    """Numbers that fall with the distance of a key, added to the scores."""

    needs = "supports_position_scores"

    def in_scores(self, d_model: int, n_heads: int, initialization: str) -> InScores:
        return DecayScores()


class DecayScores(InScores):
    def added(self, q: Tensor, n_keys: int, first: int = 0, causal: bool = False) -> Tensor:
        rows = torch.arange(first, first + q.shape[2], dtype=q.dtype)[:, None]
        return -SLOPE * (rows - torch.arange(n_keys, dtype=q.dtype)).abs()[None, None]
