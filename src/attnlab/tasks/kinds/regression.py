"""Regression: a number for each example, with squared error; the network of a classification with one class."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.tasks.kinds.classification import ClassificationKind


class RegressionKind(ClassificationKind):
    """A number for each example (`TaskSpec.n_classes` is 1)."""

    def loss(self, network: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        logits, penalty = self.logits(network, batch)
        return F.mse_loss(logits[:, 0], batch.answers.to(logits.dtype)), penalty

    def answers(self, logits: Float[Tensor, "B 1"]) -> Tensor:
        return logits[:, 0].to(torch.promote_types(logits.dtype, torch.float32))
