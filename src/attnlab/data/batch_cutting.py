"""Cuts of a batch into pieces of few padded tokens, from lengths on the host alone."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int


def cuts(sizes: Sequence[Sequence[int]], max_tokens: int) -> list[tuple[int, int]]:
    """First example and end of each piece of at most `max_tokens` padded tokens; a longer example is a piece by itself.

    Args:
        sizes: lengths of the sequences of each example.
    """
    starts, longest = [0], [0] * len(sizes[0])
    for number, lengths in enumerate(sizes):
        longest = [max(pair) for pair in zip(longest, lengths, strict=True)]
        if number > starts[-1] and (number + 1 - starts[-1]) * sum(longest) > max_tokens:
            starts.append(number)
            longest = list(lengths)
    return list(zip(starts, [*starts[1:], len(sizes)], strict=True))


def rows_of_pieces(extents: Int[np.ndarray, "B sequences"], max_tokens: int) -> list[Int[np.ndarray, " K"]]:
    """Rows of each piece of a batch, examples of similar size together; one piece if the batch has few tokens."""
    rows = extents.sum(1).argsort(kind="stable")
    return [rows[start:end] for start, end in cuts(extents[rows].tolist(), max_tokens)]
