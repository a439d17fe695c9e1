"""What is recorded of every evaluated example, by kind of task; metrics are made of it (attnlab.learn.metrics)."""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from attnlab.config.spec import TaskSpec
from attnlab.data.batch import Batch, LanguageBatch, SequenceBatch, length_mask
from attnlab.learn.cross_entropy import token_losses
from attnlab.learn.decode import Decoded, greedy
from attnlab.learn.objectives import class_logits
from attnlab.nn.heads import EncoderDecoder

Judge = Callable[[nn.Module, Batch], dict[str, Tensor]]
"""(network, batch) -> a number for every example, by name"""


def judge_for(spec: TaskSpec, decode_limit: int) -> Judge:
    """The records of a task's kind.

    Args:
        decode_limit: longest output, end token included (encoder_decoder only).
    """
    match spec.kind:
        case "encoder_decoder":
            return partial(sequences_right, limit=decode_limit, end_id=spec.end_id)
        case "classification":
            return partial(_answers, number=spec.n_classes == 1)
    return _tokens


def prefix_right(decoded: Decoded, batch: SequenceBatch) -> Bool[Tensor, " B"]:
    """Whether the first tokens of the output, as many as the target has before its end, are the target's."""
    size = min(decoded.tokens.shape[1], batch.targets.shape[1])
    counted = length_mask(batch.target_lengths - 1, size)
    fits = batch.target_lengths - 1 <= decoded.tokens.shape[1]
    return fits & ((decoded.tokens[:, :size] == batch.targets[:, :size]) | ~counted).all(1)


def sequences_right(
    network: EncoderDecoder, batch: SequenceBatch, limit: int, end_id: int
) -> dict[str, Bool[Tensor, " B"]]:
    """Whole-sequence accuracy by greedy decoding.

    sequence_accuracy: every token and the end are right, the end being the network's own.
    sequence_accuracy_oracle_end: every token is right when the output is ended where the target ends (Newman et al.
    2020; Csordas et al. 2021 call it EOS oracle). Only rows that ended too early must be decoded again for it.
    """
    # What an output has beyond the longest target of its batch and its end token cannot make it right.
    limit = min(limit, int(batch.target_lengths.max()))
    free = greedy(network, batch.inputs, batch.input_mask, limit, end_id)
    wanted = batch.target_lengths - 1
    right = prefix_right(free, batch)
    early = free.lengths < wanted
    oracle = right.clone()
    if early.any():
        again = batch.select(early)
        decoded = greedy(network, again.inputs, again.input_mask, limit, end_id, oracle_lengths=wanted[early])
        oracle[early] = prefix_right(decoded, again)
    # An output as long as the limit has not been ended by the network.
    ended = (free.lengths == wanted) & (free.lengths < limit)
    return {"sequence_accuracy": right & ended, "sequence_accuracy_oracle_end": oracle}


def _answers(network: nn.Module, batch: Batch, number: bool) -> dict[str, Tensor]:
    """`predicted` and `answer`, and whether they are the same."""
    logits, _ = class_logits(network, batch)
    predicted = logits[:, 0].to(torch.promote_types(logits.dtype, torch.float32)) if number else logits.argmax(-1)
    return {"predicted": predicted, "answer": batch.answers, "right": predicted == batch.answers}


def _tokens(network: nn.Module, batch: LanguageBatch) -> dict[str, Tensor]:
    """Sums over the scored places of each sequence: loss, tokens, right tokens, words; and whether all are right."""
    hidden, _ = network(batch.inputs, batch.mask)
    linear, scored = network.output.linear, batch.scored
    losses, right = token_losses(hidden[scored], linear.weight, linear.bias, batch.targets[scored])
    rows = torch.arange(len(batch), device=scored.device)[:, None].expand_as(scored)[scored]
    sums = torch.zeros(2, len(batch), dtype=torch.float64, device=scored.device)
    sums = sums.index_add(1, rows, torch.stack((losses.double(), right.double())))
    tokens = scored.sum(1)
    return {
        "loss": sums[0],
        "right": sums[1],
        "tokens": tokens,
        "words": batch.words,
        "sequence_accuracy": sums[1] == tokens,
    }
