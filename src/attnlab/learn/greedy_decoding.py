"""Greedy decoding, one token a step, with the network's own end token or with an oracle for its position."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnlab.nn.encoder_decoder import EncoderDecoder

# Below this share of rows still writing, the finished ones leave the batch; selecting rows copies the state.
KEEP_SHARE = 0.75
# Tokens between two questions how many rows still write, by device: each makes Python wait for a GPU, which lags behind
# it otherwise. What finished rows write meanwhile is not kept.
CHECK_EVERY = {"cpu": 1, "cuda": 8}


@dataclass(frozen=True)
class Decoded:
    """What was written.

    tokens:  [B, limit], the end token after a row's end.
    lengths: tokens before the end token, `limit` if none came.
    named:   [B, limit], the likeliest token but the end at every place, given what was read before it: `tokens` up to
             a row's end, and what stood behind its end tokens as far as the row was read on.
    """

    tokens: Int[Tensor, "B limit"]
    lengths: Int[Tensor, " B"]
    named: Int[Tensor, "B limit"]


def greedy(
    network: EncoderDecoder,
    inputs: Int[Tensor, "B S"],
    input_mask: Bool[Tensor, "B S"],
    limit: int,
    end_id: int,
    oracle_lengths: Int[Tensor, " B"] | None = None,
    least: Int[Tensor, " B"] | None = None,
) -> Decoded:
    """Write the likeliest token until the end token comes, `limit` tokens at most.

    Args:
        oracle_lengths: with it, the end token is never chosen and row b stops after oracle_lengths[b] tokens.
        least: row b is read on for so many tokens, its end tokens fed back, even if it ended before (see `named`).
    """
    oracle, rows = oracle_lengths is not None, torch.arange(len(inputs), device=inputs.device)
    least = oracle_lengths if oracle else torch.zeros_like(rows) if least is None else least
    named = inputs.new_full((len(inputs), limit), end_id)
    ends = torch.zeros_like(named, dtype=torch.bool)
    unended = torch.full_like(rows, not oracle, dtype=torch.bool)
    writing = unended | (least > 0)
    read, state = torch.full_like(rows, end_id), network.start(inputs, input_mask)
    for place in range(limit):
        if place % CHECK_EVERY[inputs.device.type] == 0:
            left = int(writing.sum())
            if left == 0:
                break
            if left < KEEP_SHARE * len(rows):
                kept = writing.nonzero()[:, 0]
                state = state.select(kept)
                read, rows, unended, writing = (x[kept] for x in (read, rows, unended, writing))
        logits, state = network.step(read, state)
        free = logits.argmax(-1)
        logits[:, end_id] = -torch.inf
        other = logits.argmax(-1)
        named[rows, place] = other.where(writing, end_id)
        read, ended = other if oracle else free, unended & (free == end_id)
        ends[rows, place], unended = ended, unended & ~ended
        writing = writing & (unended | (least[rows] > place + 1))
    lengths = least.clamp(max=limit) if oracle else ends.int().argmax(1).where(ends.any(1), limit)
    before_end = torch.arange(limit, device=inputs.device) < lengths[:, None]
    return Decoded(named.where(before_end, end_id), lengths, named)
