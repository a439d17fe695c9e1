"""Greedy decoding, one token a step, with the network's own end token or with an oracle for its position."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnlab.nn.heads import EncoderDecoder

# Below this share of rows still writing, the finished ones leave the batch; selecting rows copies the state.
KEEP_SHARE = 0.75
# Tokens between two questions how many rows still write, by device: each makes Python wait for a GPU, which lags behind
# it otherwise. What finished rows write meanwhile is not kept.
CHECK_EVERY = {"cpu": 1, "cuda": 8}


@dataclass(frozen=True)
class Decoded:
    """tokens: [B, limit], the end token after a row's end; lengths: tokens before the end token, limit if none came."""

    tokens: Int[Tensor, "B limit"]
    lengths: Int[Tensor, " B"]


def greedy(
    network: EncoderDecoder,
    inputs: Int[Tensor, "B S"],
    input_mask: Bool[Tensor, "B S"],
    limit: int,
    end_id: int,
    oracle_lengths: Int[Tensor, " B"] | None = None,
) -> Decoded:
    """Write the likeliest token until the end token comes, `limit` tokens at most.

    Args:
        oracle_lengths: with it, the end token is never chosen and row b stops after oracle_lengths[b] tokens.
    """
    batch = len(inputs)
    tokens = inputs.new_full((batch, limit), end_id)
    lengths = inputs.new_full((batch,), limit) if oracle_lengths is None else oracle_lengths.clamp(max=limit)
    rows = torch.arange(batch, device=inputs.device)
    writing = torch.ones_like(rows, dtype=torch.bool) if oracle_lengths is None else oracle_lengths > 0
    read, state = inputs.new_full((batch,), end_id), network.start(inputs, input_mask)
    for place in range(limit):
        if place % CHECK_EVERY[inputs.device.type] == 0:
            left = int(writing.sum())
            if left == 0:
                break
            if left < KEEP_SHARE * len(rows):
                kept = writing.nonzero()[:, 0]
                state, read, rows, writing = state.select(kept), read[kept], rows[kept], writing[kept]
        logits, state = network.step(read, state)
        if oracle_lengths is not None:
            logits[:, end_id] = -torch.inf
        read = logits.argmax(-1)
        tokens[rows, place] = read.where(writing, end_id)
        ended = read == end_id if oracle_lengths is None else oracle_lengths[rows] == place + 1
        if oracle_lengths is None:
            lengths[rows] = lengths[rows].masked_fill(writing & ended, place)
        writing = writing & ~ended
    return Decoded(tokens, lengths)
