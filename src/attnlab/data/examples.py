"""The examples of a subset, in memory: the host's, or a device's."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch

from attnlab.data.batch import Batch
from attnlab.data.device_cache import DeviceStore
from attnlab.data.ragged_arrays import Ragged


class Examples(ABC):
    """One subset of a task, in memory: `batch(numbers)` gathers examples by their numbers.

    lengths: what results are broken down by and evaluation can be restricted to, or None: tokens without framing of the
             output, of the input where the answer is a class, of the block where text is modelled.
    length_bins: lower edges of the ranges that lengths are put together in (`length_500_999`, `length_1000_up`),
             ascending, the first not above the shortest; None = every length by itself (`length_30`).
    groups: names of parts that get metrics of their own and their example numbers (question kinds), or empty.
    turns:  names of all groups in the order in which training takes a batch of each; empty = in the order of `groups`.
    pad_id: fills padded places of token tables.
    held:   attributes (arrays, `Ragged`) that `batch` gathers from, through `stored`; they can lie on a device. Empty
             where a batch is more than gathering, so that the host must make it at every visit.
    store:  the device they lie on; None = the host.
    """

    lengths: np.ndarray | None = None
    length_bins: Sequence[int] | None = None
    groups: Mapping[str, np.ndarray] = {}
    turns: Sequence[str] = ()
    pad_id: int = 0
    held: Sequence[str] = ()
    store: DeviceStore | None = None

    def stored(self, name: str) -> Any:
        """An attribute named in `held` as `batch` gathers from it: where it lies."""
        value = getattr(self, name)
        return value if self.store is None else self.store.get(value)

    def on(self, store: DeviceStore) -> Self:
        """The same examples, their batches gathered on a device, all else on the host. Itself if nothing is held."""
        if not self.held:
            return self
        there = copy.copy(self)
        there.store = store
        return there

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

    def extents(self) -> np.ndarray | None:
        """Lengths [n, sequences] as in `Batch.extents`, without reading a token; None for pictures, which have none."""
        return None

    def pictures(self, numbers: np.ndarray) -> np.ndarray | None:
        """The pictures behind these examples [B, height, width] or [B, height, width, 3], uint8; None without any."""
        return None


def held_bytes(subsets: Iterable[Examples]) -> int:
    """Bytes of all that these subsets can put on a device, from sizes alone: nothing is read."""
    arrays = {}
    for examples in subsets:
        for name in examples.held:
            held = getattr(examples, name)
            array = held.values if isinstance(held, Ragged) else held
            arrays[id(array)] = array.nbytes
    return sum(arrays.values())


def resident(subsets: Mapping[str, Examples], device: torch.device) -> dict[str, Examples]:
    """Subsets whose batches are gathered on a device and equal those of the host in every value, type and shape.

    What cannot lie there stays as it is. The data goes there at the first batch of each subset.
    """
    store = DeviceStore(device)
    return {name: examples.on(store) for name, examples in subsets.items()}
