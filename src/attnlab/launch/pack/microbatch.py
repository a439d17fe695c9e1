"""Splits batches of a pack that are too large for one forward pass."""

import torch

from attnlab.data.batch import Batch, cuts


def pieces(batch: Batch, members: int, max_tokens: int | None) -> list[Batch]:
    """Splits a batch of all members, one after another, into batches with the same number of examples of each member.

    As in `Batch.pieces`, the limit holds for each member: the examples of every member are sorted by size, and all
    members are cut at the same positions.
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
