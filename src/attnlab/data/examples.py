"""The examples of a subset, in memory."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np

from attnlab.data.batch import Batch


class Examples(ABC):
    """One subset of a task, in memory: `batch(numbers)` gathers examples by their numbers.

    lengths: what results are broken down by and evaluation can be restricted to, or None: tokens without framing of the
             output, of the input where the answer is a class, of the block where text is modelled.
    length_bins: lower edges of the ranges that lengths are put together in (`length_500_999`, `length_1000_up`),
             ascending, the first not above the shortest; None = every length by itself (`length_30`).
    groups: names of parts that get metrics of their own and their example numbers (question kinds), or empty.
    turns:  names of all groups in the order in which training takes a batch of each; empty = in the order of `groups`.
    """

    lengths: np.ndarray | None = None
    length_bins: Sequence[int] | None = None
    groups: Mapping[str, np.ndarray] = {}
    turns: Sequence[str] = ()

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def batch(self, numbers: np.ndarray) -> Batch:
        """The examples of these numbers [B], padded to the longest of them."""

    @abstractmethod
    def identities(self) -> list[bytes]:
        """What example i is, input and target: equal for equal examples of any split of the task."""

    @abstractmethod
    def arrays(self) -> list[np.ndarray]:
        """Everything that defines the subset, for `data_hash`."""

    def pictures(self, numbers: np.ndarray) -> np.ndarray | None:
        """The pictures behind these examples [B, height, width] or [B, height, width, 3], uint8; None without any."""
        return None
