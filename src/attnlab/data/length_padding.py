"""Batches padded to a few lengths, so that few shapes are compiled; and the share of padding in batches."""

import numpy as np

from attnlab.data.batch import Batch
from attnlab.data.batch_cutting import cuts
from attnlab.data.batch_order import Order
from attnlab.data.examples import Examples

STEPS = 4
"""lengths from one power of two to the next; padding adds less than a quarter to a length"""
MEASURED = 200
"""batches in the estimate of the share of padding"""


def round_length(length: int, longest: int) -> int:
    """`length` rounded up to a multiple of a quarter of its largest power of two, at most `longest`."""
    step = max(1, (1 << max(length.bit_length() - 1, 0)) // STEPS)
    return max(length, min(-(-length // step) * step, longest))


class LengthBuckets:
    """Pads batches to a few lengths, never above the longest example (where learned positions end).

    Only shapes of tensors are read, so nothing waits for a device; a joint batch of several runs gets one shape.
    Batches without lengths (pictures) do not change.
    """

    def __init__(self, examples: Examples) -> None:
        extents = examples.extents()
        self.longest = () if extents is None else tuple(extents.max(0).tolist())
        self.pad_id = examples.pad_id

    def sizes(self, widths: tuple[int, ...]) -> tuple[int, ...]:
        """Padded lengths for sequences of these lengths."""
        return tuple(map(round_length, widths, self.longest))

    def __call__(self, batch: Batch) -> Batch:
        return batch.padded(self.sizes(batch.widths), self.pad_id)


def padding_share(
    order: Order,
    examples: Examples,
    batches: int = MEASURED,
    *,
    max_tokens: int | None = None,
    parts: int = 1,
    rounded: bool = False,
) -> float | None:
    """Share of padded positions in the first batches, over inputs and outputs, from lengths alone; None without them.

    Args:
        max_tokens, parts: size of the pieces of a batch (`Batch.pieces`), each padded by itself.
        rounded: whether whole batches are padded by `LengthBuckets`.
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
        if parts > 1 or (max_tokens is not None and len(sizes) * width.sum() > max_tokens):
            sizes = sizes[sizes.sum(1).argsort(kind="stable")]
            pieces = cuts(sizes.tolist(), max_tokens, parts)
        for start, end in pieces:
            longest = width if end - start == len(sizes) else sizes[start:end].max(0)
            padded += (end - start) * int(longest.sum())
    return 1 - real / padded
