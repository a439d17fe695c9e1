"""Metrics of evaluated examples: which are right, and their means over all, over groups and over lengths."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool
from torch import Tensor

from attnlab.data.batch import SequenceBatch, length_mask
from attnlab.learn.decode import Decoded, greedy
from attnlab.nn.heads import EncoderDecoder


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
    free = greedy(network, batch.inputs, batch.input_mask, limit, end_id)
    wanted = batch.target_lengths - 1
    right = prefix_right(free, batch)
    early = free.lengths < wanted
    oracle = right.clone()
    if early.any():
        again = SequenceBatch(**{name: tensor[early] for name, tensor in vars(batch).items()})
        decoded = greedy(network, again.inputs, again.input_mask, limit, end_id, oracle_lengths=wanted[early])
        oracle[early] = prefix_right(decoded, again)
    # An output as long as the limit has not been ended by the network.
    ended = (free.lengths == wanted) & (free.lengths < limit)
    return {"sequence_accuracy": right & ended, "sequence_accuracy_oracle_end": oracle}


def summarise(
    right: Mapping[str, np.ndarray], lengths: np.ndarray | None, groups: Mapping[str, np.ndarray]
) -> tuple[dict[str, float], dict[str, int]]:
    """Means over all examples, over each group, and over each length.

    Args:
        right: for each metric, whether example i is right.
        lengths: length of example i, or None.
        groups: example numbers of each named part.

    Returns:
        metrics (`accuracy`, `unary/accuracy`, `length_30/sequence_accuracy`) and the number of examples behind each
        part (`all`, `unary`, `length_30`).
    """
    parts = {name: np.asarray(numbers) for name, numbers in groups.items()}
    if lengths is not None:
        parts |= {f"length_{n}": np.flatnonzero(lengths == n) for n in np.unique(lengths)}
    metrics = {name: float(np.mean(values)) for name, values in right.items()}
    for part, numbers in parts.items():
        if len(numbers):
            metrics |= {f"{part}/{name}": float(np.mean(values[numbers])) for name, values in right.items()}
    size = len(next(iter(right.values())))
    return metrics, {"all": size} | {part: len(numbers) for part, numbers in parts.items() if len(numbers)}
