"""Many sequences of small integers, end to end in one array: no padding is stored, and files of it map into memory."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

import numpy as np
from jaxtyping import Int
from torch import Tensor

from attnlab.data.batch_gathering import Stored, sent, spans
from attnlab.data.files.cache import save_arrays

Rows = tuple[Int[Tensor, "B longest"], Int[Tensor, " B"]]
"""a padded table of sequences, and their lengths"""


def smallest_dtype(largest: int) -> np.dtype:
    """The smallest unsigned type (int32 above 16 bits) that holds 0 .. largest."""
    return np.dtype(np.uint8 if largest < 2**8 else np.uint16 if largest < 2**16 else np.int32)


class Ragged:
    """Sequences of integers >= 0.

    Args:
        values: [sum of lengths] all of them, one after another; may lie on a device.
        offsets: [n + 1] where each begins, on the host; the last entry is len(values).
    """

    def __init__(self, values: Stored, offsets: np.ndarray) -> None:
        self.values, self.offsets = values, offsets

    @classmethod
    def of(cls, sequences: Iterable[Sequence[int]]) -> Self:
        """From sequences in memory."""
        sequences = [np.asarray(sequence, dtype=np.int64) for sequence in sequences]
        offsets = np.zeros(len(sequences) + 1, dtype=np.int64)
        np.cumsum([len(sequence) for sequence in sequences], out=offsets[1:])
        values = np.concatenate(sequences) if sequences else np.zeros(0, dtype=np.int64)
        return cls(values.astype(smallest_dtype(int(values.max(initial=0)))), offsets)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], name: str) -> Self:
        """What a `RaggedWriter` of this name wrote, out of `load_arrays(folder)`."""
        return cls(arrays[f"{name}_values"], arrays[f"{name}_offsets"])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> np.ndarray:
        return self.values[self.offsets[number] : self.offsets[number + 1]]

    @property
    def lengths(self) -> Int[np.ndarray, " n"]:
        return np.diff(self.offsets)

    def rows(self, numbers: np.ndarray, pad_id: int) -> Rows:
        """Sequences of these numbers [B] as one int64 table filled up with `pad_id`, and their lengths."""
        return gather_rows(numbers, pad_id, self)[1]

    def arrays(self) -> list[np.ndarray]:
        return [self.values, self.offsets]


def gather_rows(numbers: np.ndarray, pad_id: int, *sides: Ragged) -> tuple[Int[Tensor, " B"], *tuple[Rows, ...]]:
    """The numbers [B], and `rows` of each side for them, where the sequences lie; one copy takes all places there."""
    # a copy: the caller's array may change while the batch is in use
    numbers = np.array(numbers, dtype=np.int64)
    starts = [side.offsets[numbers] for side in sides]
    lengths = [side.offsets[numbers + 1] - first for side, first in zip(sides, starts, strict=True)]
    index, *places = sent(sides[0].values, numbers, *starts, *lengths)
    found = []
    for side, first, size, known in zip(sides, places[: len(sides)], places[len(sides) :], lengths, strict=True):
        found.append((spans(side.values, first, size, int(known.max(initial=0)), pad_id), size))
    return index, *found


class RaggedWriter:
    """Writes a `Ragged` sequence by sequence into a cache folder; memory grows by 8 bytes a sequence.

    Use as a context manager inside `build_once`; `Ragged.from_arrays(load_arrays(folder), name)` reads it back.

    Args:
        folder: an existing folder.
        name: files are `<name>_values.npy` and `<name>_offsets.npy`.
        largest: no integer is larger.
    """

    def __init__(self, folder: Path, name: str, largest: int) -> None:
        self.folder, self.name, self.dtype = folder, name, smallest_dtype(largest)
        self.largest, self.offsets = largest, array("q", [0])

    def __enter__(self) -> Self:
        self.file = (self.folder / f"{self.name}_values.npy").open("wb")
        self._header()
        return self

    def append(self, sequence: Sequence[int] | np.ndarray | bytes) -> None:
        """One sequence more; bytes count as numbers 0 to 255.

        Raises:
            ValueError: an integer below 0 or above `largest`, or numbers that are no integers.
        """
        values = np.frombuffer(sequence, dtype=np.uint8) if isinstance(sequence, bytes) else np.asarray(sequence)
        if len(values) and values.dtype.kind not in "iu":
            raise ValueError(f"a sequence of {values.dtype}; expected integers")
        if len(values) and not 0 <= values.min() <= values.max() <= self.largest:
            raise ValueError(f"a sequence with {values.min()} to {values.max()}; expected 0 to {self.largest}")
        self.file.write(values.astype(self.dtype).tobytes())
        self.offsets.append(self.offsets[-1] + len(values))

    def __exit__(self, *error: object) -> None:
        # numpy leaves room in the header for the final length
        self.file.seek(0)
        self._header()
        self.file.close()
        save_arrays(self.folder, **{f"{self.name}_offsets": np.array(self.offsets, dtype=np.int64)})

    def _header(self) -> None:
        descr = np.lib.format.dtype_to_descr(self.dtype)
        header = {"descr": descr, "fortran_order": False, "shape": (self.offsets[-1],)}
        np.lib.format.write_array_header_1_0(self.file, header)
