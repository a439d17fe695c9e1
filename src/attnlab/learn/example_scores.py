"""Scores of every evaluated example, by kind of task; attnlab.learn.metrics computes metrics from them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from attnlab.data.batch import ImageQuestionBatch, LabelledBatch, LanguageBatch, SequenceBatch, length_mask
from attnlab.data.task_spec import ORACLE_END, TaskSpec
from attnlab.kernels.cross_entropy import token_losses
from attnlab.learn.greedy_decoding import greedy
from attnlab.learn.objectives import class_logits
from attnlab.nn.encoder_decoder import EncoderDecoder
from attnlab.nn.language_model import LanguageModel, MaskedLanguageModel

ScoreFunction = Callable[[Any, Any], dict[str, Tensor]]
"""(network, batch) -> named scores, one number for every example; both of the task's classes"""


def score_function(spec: TaskSpec, decode_limit: int) -> ScoreFunction:
    """The function that scores examples of a task.

    Args:
        decode_limit: limit of the output length, end token included (encoder_decoder only; not read without end
            tokens, where targets give the length).
    """
    match spec.kind:
        case "encoder_decoder" if not spec.end_token:
            return partial(scores_at_target_lengths, end_id=spec.end_id)
        case "encoder_decoder":
            return partial(sequence_scores, limit=decode_limit, end_id=spec.end_id)
        case "classification":
            return partial(_answer_scores, number=spec.n_classes == 1)
    return _token_scores


def correct_prefixes(
    named: Int[Tensor, "B limit"], batch: SequenceBatch, wanted: Int[Tensor, " B"]
) -> Bool[Tensor, "B _"]:
    """Whether all tokens up to each position are right; positions after the first `wanted` count as right."""
    size = min(named.shape[1], batch.targets.shape[1])
    counted = length_mask(wanted, size)
    right = (named[:, :size] == batch.targets[:, :size]) | ~counted
    return right.int().cumprod(1).bool()


def sequence_scores(
    network: EncoderDecoder, batch: SequenceBatch, limit: int, end_id: int
) -> dict[str, Bool[Tensor, " B"]]:
    """Whole-sequence accuracy by greedy decoding.

    sequence_accuracy: every token and the end are right, with the end chosen by the network.
    sequence_accuracy_oracle_end: every token is right when the end token is never chosen and the output ends where the
    target does: the oracle of Newman et al. 2020. The network reads no end token.
    sequence_accuracy_end_ignored: every token is right when the network decodes freely and reads its end tokens, and
    its most likely tokens other than the end are compared up to the end of the target: the oracle that the code of
    Csordas et al. 2021 records. Unlike with Newman's oracle, the network reads an end token that it chose too early.
    """
    # An output that is longer than all targets of its batch is wrong, so decoding can stop there.
    limit = min(limit, int(batch.target_lengths.max()))
    wanted = batch.target_lengths - 1
    free = greedy(network, batch.inputs, batch.input_mask, limit, end_id, least=wanted)
    right = correct_prefixes(free.named, batch, wanted) & (wanted <= limit)[:, None]
    early, end = free.lengths < wanted, free.lengths.clamp(max=limit - 1)
    # Up to its first end token a row is the same under every rule: only rows that are right so far are decoded again.
    oracle, again = right[:, -1] & ~early, early & right.gather(1, end[:, None])[:, 0]
    if again.any():
        rest = batch.select(again)
        decoded = greedy(network, rest.inputs, rest.input_mask, limit, end_id, oracle_lengths=wanted[again])
        oracle[again] = correct_prefixes(decoded.named, rest, wanted[again])[:, -1]
    # An output as long as the limit has no end token.
    ended = (free.lengths == wanted) & (free.lengths < limit)
    return {
        "sequence_accuracy": right[:, -1] & ended,
        ORACLE_END: oracle,
        "sequence_accuracy_end_ignored": right[:, -1],
    }


def scores_at_target_lengths(
    network: EncoderDecoder, batch: SequenceBatch, end_id: int
) -> dict[str, Bool[Tensor, " B"]]:
    """The oracle rule of `sequence_scores` alone, for targets without end tokens: exactly as many tokens are decoded as
    the target has."""
    wanted = batch.target_lengths
    limit = int(wanted.max())
    decoded = greedy(network, batch.inputs, batch.input_mask, limit, end_id, oracle_lengths=wanted)
    return {ORACLE_END: correct_prefixes(decoded.named, batch, wanted)[:, -1]}


def _answer_scores(network: nn.Module, batch: ImageQuestionBatch | LabelledBatch, number: bool) -> dict[str, Tensor]:
    """Prediction and answer of a classifier or (`number`) a regression, and whether they are equal."""
    logits, _ = class_logits(network, batch)
    predicted = logits[:, 0].to(torch.promote_types(logits.dtype, torch.float32)) if number else logits.argmax(-1)
    return {"predicted": predicted, "answer": batch.answers, "right": predicted == batch.answers}


def _token_scores(network: LanguageModel | MaskedLanguageModel, batch: LanguageBatch) -> dict[str, Tensor]:
    """Sums over the scored positions of each sequence: loss, tokens, right tokens, words; and whether all are right."""
    hidden, _ = network(batch.inputs, batch.mask)
    output, scored = network.output, batch.scored
    losses, right = token_losses(hidden[scored], output.weight, output.bias, batch.targets[scored])
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
