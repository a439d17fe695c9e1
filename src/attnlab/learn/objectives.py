"""Training losses by kind of task: cross-entropy or squared error, each with the mean penalty of the attentions."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from attnlab.data.batch import Batch, ImageQuestionBatch, LabelledBatch, LabelledPairBatch, LanguageBatch, SequenceBatch
from attnlab.data.task_spec import TaskSpec
from attnlab.data.text_blocks import SHARE_MASKED, SHARE_RANDOM
from attnlab.kernels.cross_entropy import chunked_cross_entropy
from attnlab.nn.language_model import LanguageModel, MaskedLanguageModel

Objective = Callable[[Any, Any], tuple[Float[Tensor, ""], Float[Tensor, ""]]]
"""(network, batch) -> mean loss over what the batch counts, unweighted penalty; both of the task's classes"""


def objective_for(spec: TaskSpec) -> Objective:
    """The objective of a task."""
    match spec.kind:
        case "encoder_decoder":
            return _sequence_loss(spec.end_id)
        case "classification":
            return _number_loss if spec.n_classes == 1 else _class_loss
    return _language_loss


def over_pieces(
    objective: Callable[[Batch], tuple[Tensor, Tensor]], pieces: Sequence[Batch], weights: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Loss and penalty of a batch that is computed in pieces, with activation checkpointing.

    The backward pass computes each piece again, so that only one graph is in memory at a time.

    Args:
        objective: returns loss and penalty of a piece: numbers, or one number for each run of a pack.
        weights: for each piece, how many items its loss is a mean over; of the shape of the loss.
    """
    # `checkpoint` restores the random state of the devices of its tensor arguments, and sees no tensor inside a batch.
    found = [
        checkpoint(lambda batch, index: objective(batch), piece, piece.index, use_reentrant=False) for piece in pieces
    ]
    loss = sum(weight * each for weight, (each, _) in zip(weights, found, strict=True))
    penalty = sum(len(piece) * each for piece, (_, each) in zip(pieces, found, strict=True))
    return loss / sum(weights[1:], weights[0]).clamp(min=1), penalty / sum(map(len, pieces))


def class_logits(network: nn.Module, batch: Batch) -> tuple[Float[Tensor, "B classes"], Float[Tensor, ""]]:
    """Class logits and penalty of a classifier on a batch of any input type."""
    match batch:
        case ImageQuestionBatch():
            return network(batch.images, batch.questions)
        case LabelledPairBatch():
            return network(batch.inputs, batch.input_mask, batch.others, batch.other_mask)
        case LabelledBatch():
            return network(batch.inputs, batch.input_mask)
    raise TypeError(f"{type(batch).__name__} has no classes")


def hide_tokens(batch: LanguageBatch, spec: TaskSpec) -> LanguageBatch:
    """Masks a share of the scored tokens: 80 % become the mask token, 10 % a random word, 10 % stay (Devlin et al.
    2019, section 3.1); drawn at every step (Liu et al. 2019), from torch's generator of the batch's device.

    Returns:
        the batch as the network reads it; only the chosen positions are scored.
    """
    tokens = batch.inputs
    hidden = batch.scored & (torch.rand(tokens.shape, device=tokens.device) < spec.mask_share)
    fate = torch.rand(tokens.shape, device=tokens.device)
    words = torch.randint_like(tokens, spec.n_special, spec.input_vocabulary)
    read = torch.where(hidden & (fate < SHARE_MASKED), spec.mask_id, tokens)
    return replace(batch, inputs=torch.where(hidden & (fate >= 1 - SHARE_RANDOM), words, read), scored=hidden)


def _sequence_loss(end_id: int) -> Objective:
    def loss(network: nn.Module, batch: SequenceBatch) -> tuple[Tensor, Tensor]:
        """Mean over all real target tokens of the batch, end tokens included where targets have them."""
        read = F.pad(batch.targets[:, :-1], (1, 0), value=end_id)
        mask = batch.target_mask
        logits, penalty = network(batch.inputs, batch.input_mask, read, mask)
        # The numbers of F.cross_entropy, which has no deterministic kernel on a GPU for targets of two axes.
        wide = torch.promote_types(logits.dtype, torch.float32)
        each = -F.log_softmax(logits.transpose(1, 2), dim=1, dtype=wide).gather(1, batch.targets[:, None])[:, 0]
        # Filled, not multiplied: padding is never a target, so its loss may be infinite.
        return each.masked_fill(~mask, 0).sum() / mask.sum(), penalty

    return loss


def _class_loss(network: nn.Module, batch: ImageQuestionBatch | LabelledBatch) -> tuple[Tensor, Tensor]:
    logits, penalty = class_logits(network, batch)
    return F.cross_entropy(logits, batch.answers), penalty


def _number_loss(network: nn.Module, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
    logits, penalty = class_logits(network, batch)
    return F.mse_loss(logits[:, 0], batch.answers.to(logits.dtype)), penalty


def _language_loss(network: LanguageModel | MaskedLanguageModel, batch: LanguageBatch) -> tuple[Tensor, Tensor]:
    """Mean over all scored positions of the batch."""
    hidden, penalty = network(batch.inputs, batch.mask)
    output = network.output
    return chunked_cross_entropy(hidden, output.weight, output.bias, batch.targets, batch.scored), penalty
