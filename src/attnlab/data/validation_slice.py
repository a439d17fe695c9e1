"""A validation set of training examples for a task that has none: drawn at random, or the longest ones."""

from collections import Counter

import numpy as np

from attnlab.data.examples import Examples, SequencePairs
from attnlab.data.files.fetch import DataError

STREAM = 1
"""second number of the random stream, so that it is not the one of a task's own division"""


def set_aside(
    train: SequencePairs, share: float, data_seed: int, stay: np.ndarray | None = None
) -> tuple[SequencePairs, SequencePairs]:
    """Training examples without the ones set aside, and those; both in their former order.

    Depends on the number of examples, `share` and `data_seed` alone.

    Args:
        share: of all training examples, above 0 and below 1.
        stay: mask [n] of examples that are never set aside; None = any may be.

    Raises:
        DataError: it sets no example aside, or more than may be.
    """
    n = len(train)
    free = np.arange(n) if stay is None else np.flatnonzero(~stay)
    count = min(round(share * n), n - 1)
    if not 0 < count <= len(free):
        may = f"{len(free):,} may be (the others are repeated, or make the split what it is)"
        why = f"; {may}" if count else f"; expected at least {1 / n:.2g}"
        raise DataError(f"task.validation_share={share:g}: sets {count:,} of {n:,} training examples aside{why}")
    chosen = np.random.default_rng((data_seed, STREAM)).permutation(free)[:count]
    validates = np.zeros(n, dtype=bool)
    validates[chosen] = True
    return train.rows(np.flatnonzero(~validates)), train.rows(np.flatnonzero(validates))


def longest_aside(
    train: SequencePairs, share: float, sizes: np.ndarray, stay: np.ndarray | None = None
) -> tuple[SequencePairs, SequencePairs, int]:
    """Training examples up to a size, the larger ones, and this size; both in their former order.

    The larger sizes are set aside whole, from the largest down, as long as they are at most `share` of all examples.

    Args:
        share: of all training examples, above 0 and below 1.
        sizes: [n] size of each example, such as its output tokens.
        stay: mask [n] of examples that are never set aside, whatever their size; None = none.

    Raises:
        DataError: the examples of the largest size are more than `share`, all there are, or all stay.
    """
    values, counts = np.unique(sizes, return_counts=True)
    # the share of the examples of each size and of all larger ones
    shares = counts[::-1].cumsum()[::-1] / len(sizes)
    cut = int(values[shares > share][-1])
    aside = (sizes > cut) & (True if stay is None else ~stay)
    if not aside.any():
        least = f"expected at least {np.ceil(1000 * shares[-1]) / 1000:g}" if len(values) > 1 else "all have one size"
        raise DataError(
            f"task.validation_share={share:g} with task.validation_by=length: the training examples of the largest "
            f"size, {values[-1]}, are {shares[-1]:.1%} of all; {least}"
        )
    return train.rows(np.flatnonzero(~aside)), train.rows(np.flatnonzero(aside)), cut


def repeated(examples: Examples) -> np.ndarray:
    """Mask [n] of examples that occur more than once."""
    identities = examples.identities()
    counts = Counter(identities)
    return np.array([counts[identity] > 1 for identity in identities])
