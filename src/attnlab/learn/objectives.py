"""What is minimised, by kind of task: cross-entropy, with the mechanisms' mean penalty beside it."""

from collections.abc import Callable

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.config.schema import TaskSpec
from attnlab.data.batch import Batch, ImageQuestionBatch, SequenceBatch

Objective = Callable[[nn.Module, Batch], tuple[Float[Tensor, ""], Float[Tensor, ""]]]


def objective_for(spec: TaskSpec) -> Objective:
    """The loss of a task: (network, batch) -> cross-entropy, unweighted penalty."""
    return {"encoder_decoder": _sequence_loss(spec.end_id), "classification": _class_loss}[spec.kind]


def _sequence_loss(end_id: int) -> Objective:
    def loss(network: nn.Module, batch: SequenceBatch) -> tuple[Tensor, Tensor]:
        """Mean over all real target tokens of the batch, the end token among them."""
        read = F.pad(batch.targets[:, :-1], (1, 0), value=end_id)
        mask = batch.target_mask
        logits, penalty = network(batch.inputs, batch.input_mask, read, mask)
        each = F.cross_entropy(logits.transpose(1, 2), batch.targets, reduction="none")
        return (each * mask).sum() / mask.sum(), penalty

    return loss


def _class_loss(network: nn.Module, batch: ImageQuestionBatch) -> tuple[Tensor, Tensor]:
    logits, penalty = network(batch.images, batch.questions)
    return F.cross_entropy(logits, batch.answers), penalty
