"""Predictions of a network for inputs without answers: output ids, classes or numbers."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from attnlab.data.batch import Batch, InputBatch, LanguageBatch
from attnlab.data.task_spec import TaskSpec
from attnlab.learn.greedy_decoding import greedy
from attnlab.learn.objectives import class_logits
from attnlab.nn.encoder_decoder import EncoderDecoder
from attnlab.nn.language_model import LanguageModel, MaskedLanguageModel


def predict(network: nn.Module, batch: Batch, spec: TaskSpec, lengths: Sequence[int] | None = None) -> list[Any]:
    """What a network in evaluation mode says about each example of a batch; its answers are not read.

    Args:
        lengths: tokens of each output (encoder_decoder only), where the network never chooses the end token; None = it
            chooses the end.

    Returns:
        encoder_decoder: output ids by greedy decoding, without the end token (at most
            `max_output_length`, or `lengths`).
        classification: the most likely class; a float where the task is a regression.
        language_model: the most likely next token after the last real position, as a list of one id.
        masked_language_model: the most likely token of each scored position.
    """
    if isinstance(batch, LanguageBatch):
        # the classes of networks that read such batches
        return _tokens(cast(LanguageModel | MaskedLanguageModel, network), batch, spec.kind == "masked_language_model")
    if isinstance(network, EncoderDecoder) and isinstance(batch, InputBatch):
        given = None if lengths is None else torch.as_tensor(lengths, device=batch.inputs.device)
        limit = spec.max_output_length if lengths is None else max(lengths)
        found = greedy(network, batch.inputs, batch.input_mask, limit, spec.end_id, given)
        return [row[:size].tolist() for row, size in zip(found.tokens, found.lengths.tolist(), strict=True)]
    logits, _ = class_logits(network, batch)
    return (logits[:, 0].float() if spec.n_classes == 1 else logits.argmax(-1)).tolist()


def _tokens(network: LanguageModel | MaskedLanguageModel, batch: LanguageBatch, masked: bool) -> list[list[int]]:
    """The most likely tokens at the scored positions, or at the last real position."""
    hidden, _ = network(batch.inputs, batch.mask)
    rows: list[Tensor] = []
    for row, size, scored in zip(hidden, batch.lengths.tolist(), batch.scored, strict=True):
        # few positions at once: the logits of a whole batch over a word vocabulary may not fit into memory
        rows.append(row[scored] if masked else row[size - 1 : size])
    return [network.output(row[None])[0].argmax(-1).tolist() for row in rows]
