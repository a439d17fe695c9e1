"""Sequences of small integers, concatenated in one array: without padding, and mapped into memory from files."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self, overload

import numpy as np
from jaxtyping import Int
from torch import Tensor

from attnlab.data.batch_gathering import index_tensors, padded_spans
from attnlab.data.files.cache import save_arrays, write_header

Rows = tuple[Int[Tensor, "B longest"], Int[Tensor, " B"]]
"""a padded table of sequences, and their lengths"""


def smallest_dtype(largest: int) -> np.dtype:
    """The smallest unsigned type for 0 .. largest; int32 above 16 bits."""
    return np.dtype(np.uint8 if largest < 2**8 else np.uint16 if largest < 2**16 else np.int32)


def offsets_of(lengths: Sequence[int] | np.ndarray) -> np.ndarray:
    """Starts of concatenated sequences of these lengths, and the end of the last one; int64."""
    return np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))


class Ragged:
    """Sequences of integers >= 0.

    Args:
        values: [sum of lengths] the concatenated sequences.
        offsets: [n + 1] start of each sequence; the last entry is len(values).
    """

    def __init__(self, values: np.ndarray, offsets: np.ndarray) -> None:
        self.values, self.offsets = values, offsets

    @classmethod
    def of(cls, sequences: Iterable[Sequence[int] | np.ndarray]) -> Self:
        """Concatenates sequences in memory."""
        arrays = [np.asarray(sequence, dtype=np.int64) for sequence in sequences]
        values = np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.int64)
        return cls(values.astype(smallest_dtype(int(values.max(initial=0)))), offsets_of(list(map(len, arrays))))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], name: str) -> Self:
        """The sequences that a `RaggedWriter` of this name wrote; `arrays` is the result of `load_arrays(folder)`."""
        return cls(arrays[f"{name}_values"], arrays[f"{name}_offsets"])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, number: int) -> np.ndarray: ...

    @overload
    def __getitem__(self, number: slice) -> "Ragged": ...

    def __getitem__(self, number: int | slice) -> "np.ndarray | Ragged":
        """One sequence, or those of a slice: a view where the slice has no step."""
        if isinstance(number, slice):
            numbers = range(len(self))[number]
            if numbers.step != 1:
                return self.rows(np.array(numbers, dtype=np.int64))
            offsets = self.offsets[numbers.start : numbers.start + len(numbers) + 1]
            return Ragged(self.values[offsets[0] : offsets[-1]], offsets - offsets[0])
        if not -len(self) <= number < len(self):
            raise IndexError(f"number {number} of {len(self)} sequences")
        number %= len(self)
        return self.values[self.offsets[number] : self.offsets[number + 1]]

    def rows(self, numbers: Int[np.ndarray, " k"]) -> "Ragged":
        """A copy of the sequences of these numbers, in this order."""
        lengths = self.lengths[numbers]
        offsets = offsets_of(lengths)
        # the place of every value: its distance from the start of its sequence, behind the start in this array
        places = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][numbers] - offsets[:-1], lengths)
        return Ragged(self.values[places], offsets)

    def __repr__(self) -> str:
        lengths = f", lengths {self.lengths.min()} to {self.lengths.max()}" if len(self) else ""
        return f"Ragged({len(self)} sequences{lengths})"

    @property
    def lengths(self) -> Int[np.ndarray, " n"]:
        return np.diff(self.offsets)

    def arrays(self) -> list[np.ndarray]:
        return [self.values, self.offsets]


class RaggedOnDevice(NamedTuple):
    """Sequences whose values [sum of lengths] are on a device, and their offsets [n + 1] on the host."""

    values: Tensor
    offsets: np.ndarray


def gather_rows(
    numbers: np.ndarray, pad_id: int, *sides: Ragged | RaggedOnDevice
) -> tuple[Int[Tensor, " B"], *tuple[Rows, ...]]:
    """The numbers [B], and the sequences of these numbers of each side, on the device of the sequences.

    One copy moves all indices.
    """
    # a copy: the caller's array may change while the batch is in use
    numbers = np.array(numbers, dtype=np.int64)
    starts = [side.offsets[numbers] for side in sides]
    lengths = [side.offsets[numbers + 1] - first for side, first in zip(sides, starts, strict=True)]
    index, *spans = index_tensors(sides[0].values, numbers, *starts, *lengths)
    gathered = []
    for side, first, size, known in zip(sides, spans[: len(sides)], spans[len(sides) :], lengths, strict=True):
        gathered.append((padded_spans(side.values, first, size, int(known.max(initial=0)), pad_id), size))
    return index, *gathered


class RaggedWriter:
    """Writes `<name>_values.npy` and `<name>_offsets.npy` into a folder, sequence by sequence, with 8 bytes of memory
    per sequence; a context manager for `build_once`. `Ragged.from_arrays(load_arrays(folder), name)` reads them.
    """

    def __init__(self, folder: Path, name: str, largest: int) -> None:
        self.folder, self.name, self.dtype = folder, name, smallest_dtype(largest)
        self.largest, self.offsets = largest, array("q", [0])

    def __enter__(self) -> Self:
        self.file = (self.folder / f"{self.name}_values.npy").open("wb")
        write_header(self.file, self.dtype, (0,))
        return self

    def append(self, sequence: Sequence[int] | np.ndarray | bytes) -> None:
        """Appends a sequence (bytes: 0 to 255); a ValueError for other numbers than integers 0 to `largest`."""
        values = np.frombuffer(sequence, dtype=np.uint8) if isinstance(sequence, bytes) else np.asarray(sequence)
        if len(values) and values.dtype.kind not in "iu":
            raise ValueError(f"a sequence of {values.dtype}; expected integers")
        if len(values) and not 0 <= values.min() <= values.max() <= self.largest:
            raise ValueError(f"a sequence with {values.min()} to {values.max()}; expected 0 to {self.largest}")
        self.file.write(values.astype(self.dtype).tobytes())
        self.offsets.append(self.offsets[-1] + len(values))

    def __exit__(self, *error: object) -> None:
        self.file.seek(0)
        write_header(self.file, self.dtype, (self.offsets[-1],))
        self.file.close()
        save_arrays(self.folder, **{f"{self.name}_offsets": np.array(self.offsets, dtype=np.int64)})
