"""Parameter groups of a pack's optimiser: runs with equal options share one, since each costs kernels of its own."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from attnlab.config.schema import Optim


class Place(NamedTuple):
    """Place of a run in the optimiser: number of its group, and of its parameter as torch counts over all groups."""

    group: int
    parameter: int


class OptimizerGroups:
    """Groups of runs with equal optimisers and schedules, in the order of their first runs.

    Clipping is not part of an optimiser, so limits may differ within a group.

    Args:
        optims: the options of each run, in the order of the rows of the stack.
    """

    def __init__(self, optims: Sequence[Optim]) -> None:
        found: dict[str, list[int]] = {}
        for row, optim in enumerate(optims):
            found.setdefault(repr(replace(optim, clip_norm=None, clip_value=None)), []).append(row)
        self.rows = list(found.values())
        """rows of the stack in each group"""
        self.optims = [optims[rows[0]] for rows in self.rows]
        """options of each group"""
        order = [row for rows in self.rows for row in rows]
        group_of = {row: group for group, rows in enumerate(self.rows) for row in rows}
        self.places = [Place(group_of[row], order.index(row)) for row in range(len(order))]
        """place of each run"""
