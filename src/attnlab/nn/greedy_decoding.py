"""Greedy incremental decoding, with the end token chosen by the network or by an oracle."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnlab.attention.base import TooLong
from attnlab.nn.output_head import SequenceNetwork

# When fewer than this share of rows is unfinished, finished rows leave the batch; not at every step, because selecting
# rows copies the state.
KEEP_SHARE = 0.75
# Steps between two counts of the unfinished rows, by device: each count makes Python wait for the GPU. Tokens that
# finished rows write in between are dropped.
CHECK_EVERY = {"cpu": 1, "cuda": 8}


@dataclass(frozen=True)
class Decoded:
    """Decoded sequences.

    tokens:  [B, limit], filled with end tokens after a row's end.
    lengths: tokens before the end token; `limit` without an end token.
    named:   [B, limit], the most likely token other than the end at every position, given the tokens read before it:
             `tokens` up to a row's end, then the tokens after its end, as far as the row was decoded.
    """

    tokens: Int[Tensor, "B limit"]
    lengths: Int[Tensor, " B"]
    named: Int[Tensor, "B limit"]


def greedy(
    network: SequenceNetwork,
    inputs: Int[Tensor, "B S"],
    input_mask: Bool[Tensor, "B S"],
    limit: int,
    end_id: int,
    oracle_lengths: Int[Tensor, " B"] | None = None,
    least: Int[Tensor, " B"] | None = None,
) -> Decoded:
    """Choose the most likely token until the end token, `limit` tokens at most.

    Args:
        oracle_lengths: with it, the end token is never chosen and row b stops after oracle_lengths[b] tokens.
        least: row b is decoded for at least this many tokens, and reads its end tokens (see `Decoded.named`).

    Raises:
        TooLong: a row that has not ended reaches the longest sequence that the network can write.
    """
    oracle, rows = oracle_lengths is not None, torch.arange(len(inputs), device=inputs.device)
    none = torch.zeros_like(rows) if least is None else least
    least = none if oracle_lengths is None else oracle_lengths
    named = inputs.new_full((len(inputs), limit), end_id)
    ends = torch.zeros_like(named, dtype=torch.bool)
    unended = torch.full_like(rows, not oracle, dtype=torch.bool)
    writing = unended | (least > 0)
    read, state = torch.full_like(rows, end_id), network.start(inputs, input_mask)
    for position in range(limit):
        if position % CHECK_EVERY[inputs.device.type] == 0:
            left = int(writing.sum())
            if left == 0:
                break
            if left < KEEP_SHARE * len(rows):
                kept = writing.nonzero()[:, 0]
                state = state.select(kept)
                read, rows, unended, writing = (x[kept] for x in (read, rows, unended, writing))
        try:
            logits, state = network.step(read, state)
        except TooLong:
            # rows that have ended go on until the next count, perhaps beyond the longest sequence
            if writing.any():
                raise
            break
        free = logits.argmax(-1)
        logits[:, end_id] = -torch.inf
        other = logits.argmax(-1)
        named[rows, position] = other.where(writing, end_id)
        read, ended = other if oracle else free, unended & (free == end_id)
        ends[rows, position], unended = ended, unended & ~ended
        writing = writing & (unended | (least[rows] > position + 1))
    lengths = least.clamp(max=limit) if oracle else ends.int().argmax(1).where(ends.any(1), limit)
    before_end = torch.arange(limit, device=inputs.device) < lengths[:, None]
    return Decoded(named.where(before_end, end_id), lengths, named)
