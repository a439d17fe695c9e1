"""Contract of a subset, whose examples are in the memory of the host or of a device, and subsets of token sequences."""

import copy
import hashlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from attnlab.data.batch import Batch, LabelledBatch, LabelledPairBatch, SequenceBatch
from attnlab.data.batch_gathering import take_rows
from attnlab.data.files.fetch import DataError
from attnlab.data.ragged_arrays import Ragged, RaggedOnDevice, gather_rows


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
            array = held
            if array.dtype == np.uint16:
                # few operations of torch support uint16
                array = array.view(np.int16) if array.max(initial=0) < 2**15 else array.astype(np.int32)
            # the first use may be an evaluation, whose inference tensors cannot be used in training
            with warnings.catch_warnings(), torch.inference_mode(False):
                warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
                self._copies[id(held)] = held, torch.from_numpy(array).to(self.device)
        return self._copies[id(held)][1]


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


def digest(*parts: np.ndarray) -> bytes:
    """Hash of arrays, 16 bytes; equal numbers give equal hashes in any integer type."""
    blake = hashlib.blake2b(digest_size=16)
    for part in parts:
        part = np.ascontiguousarray(part)
        blake.update(f"{part.size},".encode())
        # the same numbers may be stored in a wider type in another file
        blake.update((part if np.issubdtype(part.dtype, np.floating) else part.astype(np.int64)).tobytes())
    return blake.digest()


class SequenceExamples(Examples):
    """Examples of one or more token sequences and perhaps a label, in the attributes that `held` names.

    Subclasses are dataclasses with these attributes, and with `pad_id`, `groups` and `length_bins` as in `Examples`.

    batch_type: class of the batches; its fields have the names of the sequences, and of `answers` [n] where it is held.
    """

    batch_type: ClassVar[type[Batch]]

    def __len__(self) -> int:
        return len(self._columns()[0])

    def batch(self, numbers: np.ndarray) -> Batch:
        """The examples of these numbers [B], int64; every sequence is padded to the longest of them."""
        sequences = self.batch_type.sequences
        stored = [self.stored(name) for (name,) in sequences.values()]
        index, *gathered = gather_rows(numbers, self.pad_id, *stored)
        columns: dict[str, Any] = {"index": index}
        for (lengths, (name,)), (table, sizes) in zip(sequences.items(), gathered, strict=True):
            columns |= {name: table, lengths: sizes}
        if "answers" in self.held:
            answers = take_rows(self.stored("answers"), index)
            columns["answers"] = answers.float() if answers.is_floating_point() else answers.long()
        return self.batch_type(**columns)

    def extents(self) -> np.ndarray:
        return np.stack([column.lengths for column in self._columns() if isinstance(column, Ragged)], axis=1)

    def identities(self) -> list[bytes]:
        columns = self._columns()
        return [digest(*(column[i] for column in columns)) for i in range(len(self))]

    def arrays(self) -> list[np.ndarray]:
        columns = (column.arrays() if isinstance(column, Ragged) else [column] for column in self._columns())
        return [array for arrays in columns for array in arrays]

    def _columns(self) -> list[Ragged | np.ndarray]:
        return [getattr(self, name) for name in self.held]


@dataclass(eq=False, repr=False)
class LabelledSequences(SequenceExamples):
    """Token sequences, each with a class (or a number, for a regression).

    Args:
        inputs: the sequences.
        answers: [n] classes (integers) or numbers (floats).
        pad_id, groups, length_bins: as in `Examples`.
    """

    held = ("inputs", "answers")
    batch_type = LabelledBatch

    inputs: Ragged
    answers: np.ndarray
    pad_id: int
    groups: Mapping[str, np.ndarray] = field(default_factory=dict)
    length_bins: Sequence[int] | None = None

    def __post_init__(self) -> None:
        self.lengths = self.inputs.lengths


@dataclass(eq=False, repr=False)
class LabelledPairs(SequenceExamples):
    """Pairs of token sequences, each with a class; `lengths` are the lengths of the longer side.

    Args:
        inputs, others: the first and the second sequence of each pair.
        answers, pad_id, groups, length_bins: as in `LabelledSequences`.
    """

    held = ("inputs", "others", "answers")
    batch_type = LabelledPairBatch

    inputs: Ragged
    others: Ragged
    answers: np.ndarray
    pad_id: int
    groups: Mapping[str, np.ndarray] = field(default_factory=dict)
    length_bins: Sequence[int] | None = None

    def __post_init__(self) -> None:
        self.lengths = np.maximum(self.inputs.lengths, self.others.lengths)


@dataclass(eq=False, repr=False)
class SequencePairs(SequenceExamples):
    """Framed input and target token sequences, perhaps mapped from a file; `lengths` are without framing.

    Args:
        inputs: start + tokens + end.
        targets: tokens + end; without the end after `without_ends`.
        pad_id, groups, length_bins: as in `Examples`.
    """

    held = ("inputs", "targets")
    batch_type = SequenceBatch

    inputs: Ragged
    targets: Ragged
    pad_id: int
    groups: Mapping[str, np.ndarray] = field(default_factory=dict)
    length_bins: Sequence[int] | None = None

    def __post_init__(self) -> None:
        self.lengths = self.targets.lengths - 1

    @classmethod
    def of(
        cls, inputs: Iterable[Sequence[int] | np.ndarray], targets: Iterable[Sequence[int] | np.ndarray], pad_id: int
    ) -> Self:
        """From lists of framed token ids."""
        return cls(Ragged.of(inputs), Ragged.of(targets), pad_id)

    def without_ends(self) -> Self:
        """The same examples, copied, with targets that have no end token; `lengths` stay.

        Raises:
            DataError: the target of an example has no token but the end.
        """
        short = np.flatnonzero(self.targets.lengths < 2)
        if len(short):
            raise DataError(f"example {short[0]} has an empty output: nothing to train on without end tokens")
        part, places = copy.copy(self), self.targets.offsets
        part.targets = Ragged(np.delete(self.targets.values, places[1:] - 1), places - np.arange(len(places)))
        return part

    def rows(self, numbers: np.ndarray) -> Self:
        """A subset of these examples, copied, in this order; without groups."""
        part = copy.copy(self)
        part.inputs, part.targets = self.inputs.rows(numbers), self.targets.rows(numbers)
        part.lengths, part.groups = np.asarray(self.lengths)[numbers], {}
        return part
