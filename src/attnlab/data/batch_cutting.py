"""Cuts of a batch into pieces of few padded tokens and examples, from lengths on the host alone."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int


def cuts(sizes: Sequence[Sequence[int]], max_tokens: int | None, parts: int = 1) -> list[tuple[int, int]]:
    """First example and end of each piece of at most `max_tokens` padded tokens; a longer example is a piece by itself.

    Args:
        sizes: lengths of the sequences of each example.
        max_tokens: None: no limit.
        parts: a piece has at most this part of all examples, rounded up.
    """
    most = -(-len(sizes) // parts)
    starts, longest = [0], [0] * len(sizes[0])
    for number, lengths in enumerate(sizes):
        longest = [max(pair) for pair in zip(longest, lengths, strict=True)]
        examples = number + 1 - starts[-1]
        too_large = max_tokens is not None and examples * sum(longest) > max_tokens
        if examples > 1 and (too_large or examples > most):
            starts.append(number)
            longest = list(lengths)
    return list(zip(starts, [*starts[1:], len(sizes)], strict=True))


def rows_of_pieces(
    extents: Int[np.ndarray, "B sequences"], max_tokens: int | None, parts: int = 1
) -> list[Int[np.ndarray, " K"]]:
    """Rows of each piece of a batch, examples of similar size together; one piece if the batch has few tokens."""
    rows = extents.sum(1).argsort(kind="stable")
    return [rows[start:end] for start, end in cuts(extents[rows].tolist(), max_tokens, parts)]
