"""Sequence to sequence: an encoder and a decoder, or a decoder alone, that chooses its tokens greedily."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int
from torch import Tensor

from attnlab.data.batch import InputBatch, SequenceBatch, length_mask
from attnlab.data.task_spec import ORACLE_END
from attnlab.nn.decoder_only import DecoderOnly
from attnlab.nn.encoder_decoder import EncoderDecoder
from attnlab.nn.greedy_decoding import greedy
from attnlab.nn.network_parts import NetworkParts
from attnlab.nn.output_head import Network, SequenceNetwork
from attnlab.tasks.kinds.base import Kind


class EncoderDecoderKind(Kind):
    """Sequence to sequence, by an encoder and a decoder or (`backbone.architecture=decoder_only`) by one decoder."""

    needs: ClassVar = {"encoder": ["bidirectional"], "decoder": ["causal", "step"], "cross": ["cross", "step"]}
    reads = ("tied_output", "n_decoder_layers", "architecture", "prefix")
    takes_lengths = True

    @classmethod
    def needs_of(
        cls, task: type, options: Mapping[str, Any], backbone: Mapping[str, Any]
    ) -> Mapping[str, Sequence[str]]:
        if backbone["architecture"] == "encoder_decoder":
            return cls.needs
        return {"decoder": ["causal", "step"] + ["bidirectional"] * (backbone["prefix"] == "bidirectional")}

    def network(self, parts: NetworkParts) -> Network:
        if parts.backbone.architecture == "decoder_only":
            return self._decoder_only(parts)
        longest = max(self.spec.max_input_length, self.spec.max_output_length)
        source = parts.embedding(self.spec.input_vocabulary, longest)
        target = parts.embedding(self.spec.output_vocabulary, longest)
        encoder = parts.stack("encoder", longest)
        decoder = parts.stack("decoder", longest, cross=True)
        return EncoderDecoder(source, target, encoder, decoder, parts.output(target))

    def _decoder_only(self, parts: NetworkParts) -> DecoderOnly:
        n_inputs, n_outputs = self.spec.input_vocabulary, self.spec.output_vocabulary
        longest_input = self.spec.max_input_length
        longest = longest_input + self.spec.max_output_length
        embedding = parts.embedding(n_inputs + n_outputs, longest)
        output = parts.output(embedding, first=n_inputs) if parts.backbone.tied_output else parts.output()
        bidirectional = parts.backbone.prefix == "bidirectional"
        return DecoderOnly(embedding, parts.lone_decoder(longest), output, n_outputs, longest_input, bidirectional)

    def loss(self, network: SequenceNetwork, batch: SequenceBatch) -> tuple[Tensor, Tensor]:
        """Mean over all real target tokens of the batch, end tokens included where targets have them."""
        read = F.pad(batch.targets[:, :-1], (1, 0), value=self.spec.end_id)
        mask = batch.target_mask
        logits, penalty = network(batch.inputs, batch.input_mask, read, mask)
        # The numbers of F.cross_entropy, which has no deterministic kernel on a GPU for targets of two axes.
        wide = torch.promote_types(logits.dtype, torch.float32)
        each = -F.log_softmax(logits.transpose(1, 2), dim=1, dtype=wide).gather(1, batch.targets[:, None])[:, 0]
        # Filled, not multiplied: padding is never a target, so its loss may be infinite.
        return each.masked_fill(~mask, 0).sum() / mask.sum(), penalty

    def scores(self, network: SequenceNetwork, batch: SequenceBatch, limit: int) -> dict[str, Tensor]:
        if not self.spec.end_token:
            return scores_at_target_lengths(network, batch, self.spec.end_id)
        return sequence_scores(network, batch, limit, self.spec.end_id)

    def predict(self, network: SequenceNetwork, batch: InputBatch, lengths: Sequence[int] | None = None) -> list[Any]:
        """Output ids by greedy decoding, without the end token (at most `max_output_length`, or `lengths`)."""
        ends = None if lengths is None else torch.as_tensor(lengths, device=batch.inputs.device)
        limit = self.spec.max_output_length if lengths is None else max(lengths)
        decoded = greedy(network, batch.inputs, batch.input_mask, limit, self.spec.end_id, ends)
        return [row[:size].tolist() for row, size in zip(decoded.tokens, decoded.lengths.tolist(), strict=True)]


def correct_prefixes(
    named: Int[Tensor, "B limit"], batch: SequenceBatch, wanted: Int[Tensor, " B"]
) -> Bool[Tensor, "B _"]:
    """Whether all tokens up to each position are right; positions after the first `wanted` count as right."""
    size = min(named.shape[1], batch.targets.shape[1])
    counted = length_mask(wanted, size)
    right = (named[:, :size] == batch.targets[:, :size]) | ~counted
    return right.int().cumprod(1).bool()


def sequence_scores(
    network: SequenceNetwork, batch: SequenceBatch, limit: int, end_id: int
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
    network: SequenceNetwork, batch: SequenceBatch, end_id: int
) -> dict[str, Bool[Tensor, " B"]]:
    """The oracle rule of `sequence_scores` alone, for targets without end tokens: exactly as many tokens are decoded as
    the target has."""
    wanted = batch.target_lengths
    limit = int(wanted.max())
    decoded = greedy(network, batch.inputs, batch.input_mask, limit, end_id, oracle_lengths=wanted)
    return {ORACLE_END: correct_prefixes(decoded.named, batch, wanted)[:, -1]}
