"""Causal language models: every next token."""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from attnlab.data.batch import LanguageBatch
from attnlab.kernels.cross_entropy import chunked_cross_entropy, token_losses
from attnlab.nn.language_model import LanguageModel
from attnlab.nn.network_parts import NetworkParts
from attnlab.nn.output_head import Network
from attnlab.tasks.kinds.base import Kind


class LanguageModelKind(Kind):
    """Causal language models, and the loss and scores of all networks that choose a token at scored positions.

    Networks return hidden states and have an `output`.
    """

    needs: ClassVar = {"decoder": ["causal"]}
    reads: ClassVar[Sequence[str]] = ("tied_output",)
    counts_tokens = True

    def network(self, parts: NetworkParts) -> Network:
        longest = self.spec.max_input_length
        embedding = parts.embedding(self.spec.input_vocabulary, longest)
        return LanguageModel(embedding, parts.lone_decoder(longest), parts.output(embedding))

    def loss(self, network: Any, batch: LanguageBatch) -> tuple[Tensor, Tensor]:
        """Mean over all scored positions of the batch."""
        hidden, penalty = network(batch.inputs, batch.mask)
        output = network.output
        return chunked_cross_entropy(hidden, output.weight, output.bias, batch.targets, batch.scored), penalty

    def scores(self, network: Any, batch: LanguageBatch, limit: int = 0) -> dict[str, Tensor]:
        """Sums over the scored positions of each sequence: loss, tokens, right tokens, words; whether all are right."""
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

    def predict(self, network: Any, batch: LanguageBatch, lengths: Sequence[int] | None = None) -> list[Any]:
        """The most likely next token after the last real position, as a list of one id."""
        positions = torch.arange(batch.inputs.shape[1], device=batch.inputs.device)
        return tokens_at(network, batch, positions == batch.lengths[:, None] - 1)


def tokens_at(network: Any, batch: LanguageBatch, chosen: Tensor) -> list[list[int]]:
    """The most likely tokens at the chosen positions [B, N]."""
    hidden, _ = network(batch.inputs, batch.mask)
    # few positions at once: the logits of a whole batch over a word vocabulary may not fit into memory
    rows = (row[positions] for row, positions in zip(hidden, chosen, strict=True))
    return [network.output(row[None])[0].argmax(-1).tolist() for row in rows]
