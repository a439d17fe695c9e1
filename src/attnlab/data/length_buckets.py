"""How much of a batch is padding, and batches padded up to a few lengths, so that few shapes are compiled."""

import numpy as np

from attnlab.data.batch import Batch, cuts
from attnlab.data.batch_order import BatchOrder
from attnlab.data.examples import Examples

STEPS = 4
"""lengths from one power of two to the next: a length grows by less than a quarter"""
MEASURED = 200
"""batches that a share of padding is taken over"""


def round_length(length: int, longest: int) -> int:
    """The next multiple of a quarter of the largest power of two up to `length`, or `longest`, whichever is less."""
    step = max(1, (1 << max(length.bit_length() - 1, 0)) // STEPS)
    return max(length, min(-(-length // step) * step, longest))


class LengthBuckets:
    """Pads batches up to a few lengths, never above the longest example (where learned positions end).

    Lengths are those of tensors, so nothing waits for a device; several runs' examples gathered as one batch get one
    shape. What has no lengths (pictures) stays as it is.
    """

    def __init__(self, examples: Examples) -> None:
        extents = examples.extents()
        self.longest = () if extents is None else tuple(extents.max(0).tolist())
        self.pad_id = examples.pad_id

    def sizes(self, widths: tuple[int, ...]) -> tuple[int, ...]:
        """Lengths that sequences of these lengths are padded to."""
        return tuple(map(round_length, widths, self.longest))

    def __call__(self, batch: Batch) -> Batch:
        return batch.padded(self.sizes(batch.widths), self.pad_id)


def padding_share(
    order: BatchOrder,
    examples: Examples,
    batches: int = MEASURED,
    *,
    max_tokens: int | None = None,
    rounded: bool = False,
) -> float | None:
    """Padded places among all places of the first batches, inputs and outputs; from lengths alone, no token is read.

    Args:
        batches: how many are looked at.
        max_tokens: pieces that a batch is computed in (`Batch.pieces`), which are padded by themselves.
        rounded: batches are padded up to a few lengths (`LengthBuckets`), but for those in pieces.

    Returns:
        between 0 and 1; None for examples without lengths.
    """
    extents = examples.extents()
    if extents is None:
        return None
    buckets, real, padded = LengthBuckets(examples), 0, 0
    for number in range(batches):
        sizes = extents[order[number]]
        real += int(sizes.sum())
        width = sizes.max(0)
        if rounded:
            width = np.array(buckets.sizes(tuple(width.tolist())))
        pieces = [(0, len(sizes))]
        if max_tokens is not None and len(sizes) * width.sum() > max_tokens:
            sizes = sizes[sizes.sum(1).argsort(kind="stable")]
            pieces = cuts(sizes.tolist(), max_tokens)
        for start, end in pieces:
            longest = width if end - start == len(sizes) else sizes[start:end].max(0)
            padded += (end - start) * int(longest.sum())
    return 1 - real / padded
