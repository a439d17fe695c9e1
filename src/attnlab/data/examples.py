"""Contract of a subset: its examples in the memory of the host or of a device."""

import copy
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlab.data.batch import Batch
from attnlab.data.ragged_arrays import Ragged, RaggedOnDevice


class DeviceCache:
    """Copies of arrays on a device, each made at its first use and shared by all subsets."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._copies: dict[int, tuple[np.ndarray, Tensor]] = {}

    def get(self, held: np.ndarray | Ragged) -> Any:
        """The tensor of an array on the device; for a `Ragged`, one with its values there."""
        if isinstance(held, Ragged):
            return RaggedOnDevice(self.get(held.values), held.offsets)
        if id(held) not in self._copies:
            # the reference to the array prevents the reuse of its id
            self._copies[id(held)] = held, self._copied(held)
        return self._copies[id(held)][1]

    def _copied(self, array: np.ndarray) -> Tensor:
        if array.dtype == np.uint16:
            # few operations of torch support uint16
            array = array.view(np.int16) if array.max(initial=0) < 2**15 else array.astype(np.int32)
        # the first use may be an evaluation, whose inference tensors cannot be used in training
        with warnings.catch_warnings(), torch.inference_mode(False):
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            return torch.from_numpy(array).to(self.device)


class Examples(ABC):
    """One subset of a task; `batch(numbers)` gathers examples by their numbers.

    lengths: [n] lengths for results by length and for evaluation on some lengths, without framing tokens: length of the
             output, of the input if the answer is a class, of the block in language modelling. None: no lengths.
    length_bins: lower edges of the length ranges in results (`length_500_999`, `length_1000_up`), ascending, the first
             not above the shortest length; None = every length by itself (`length_30`).
    groups:  example numbers of named parts with metrics of their own (kinds of questions), or empty.
    turns:   names of all groups in the order of training batches; empty = the order of `groups`.
    pad_id:  fills padded positions of token tables.
    held:    names of attributes (arrays, `Ragged`) that `batch` reads through `stored`, so that they can be on a
             device. Empty if a batch needs more than gathering and must be made on the host.
    store:   the device copies; None = the host.
    """

    lengths: np.ndarray | None = None
    length_bins: Sequence[int] | None = None
    groups: Mapping[str, np.ndarray] = {}
    turns: Sequence[str] = ()
    pad_id: int = 0
    held: Sequence[str] = ()
    store: DeviceCache | None = None

    def stored(self, name: str) -> Any:
        """An attribute named in `held`: the array itself, or its copy on the device."""
        value = getattr(self, name)
        return value if self.store is None else self.store.get(value)

    @abstractmethod
    def __len__(self) -> int: ...

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} examples)"

    @abstractmethod
    def batch(self, numbers: np.ndarray) -> Batch:
        """The examples of these numbers [B], padded to the longest of them."""

    @abstractmethod
    def identities(self) -> list[bytes]:
        """A key of each example's input and target: equal for equal examples of any split of the task."""

    @abstractmethod
    def arrays(self) -> list[np.ndarray]:
        """All arrays that define the subset, for `data_hash`."""

    def extents(self) -> np.ndarray | None:
        """Lengths [n, sequences] as in `Batch.extents`, without reading tokens; None for pictures."""
        return None

    def pictures(self, numbers: np.ndarray) -> np.ndarray | None:
        """The pictures of these examples, uint8 [B, height, width] or [B, height, width, 3]; None for other tasks."""
        return None


def held_bytes(subsets: Iterable[Examples]) -> int:
    """Bytes of all arrays that these subsets can copy to a device, computed from sizes alone."""
    arrays = {}
    for examples in subsets:
        for name in examples.held:
            held = getattr(examples, name)
            array = held.values if isinstance(held, Ragged) else held
            arrays[id(array)] = array.nbytes
    return sum(arrays.values())


def resident(subsets: Mapping[str, Examples], device: torch.device) -> dict[str, Examples]:
    """Subsets whose batches are gathered on a device, equal to the host's batches in values, types and shapes.

    Subsets without `held` stay on the host. The data is copied at the first batch of each subset.
    """
    store, moved = DeviceCache(device), dict(subsets)
    for name, examples in subsets.items():
        if examples.held:
            moved[name] = copy.copy(examples)
            moved[name].store = store
    return moved
