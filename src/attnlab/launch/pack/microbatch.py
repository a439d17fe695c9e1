"""Batches of many runs that are too large for one pass, in pieces."""

import torch

from attnlab.data.batch import Batch, cuts


def pieces(batch: Batch, members: int, max_tokens: int | None) -> list[Batch]:
    """A batch of all members, one after another, or several such batches with as many examples of each member.

    As `Batch.pieces`, whose limit holds for each member by itself: every member's examples are put in the order of
    their sizes, and all are cut at the same places.
    """
    if max_tokens is None or (batch.sequences and len(batch) // members * sum(batch.widths) <= max_tokens):
        return [batch]
    extents = torch.stack(batch.extents).unflatten(1, (members, -1))
    if extents.shape[2] * int(extents.amax((1, 2)).sum()) <= max_tokens:
        return [batch]
    order = extents.sum(0).argsort(dim=1, stable=True)
    largest = extents.gather(2, order.expand_as(extents)).amax(1)
    rows = order + torch.arange(members, device=order.device)[:, None] * order.shape[1]
    found = cuts(largest.T.tolist(), max_tokens)
    return [batch.select(rows[:, start:end].flatten()).trimmed() for start, end in found]
