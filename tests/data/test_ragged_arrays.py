"""Ragged arrays: padded rows, files written one sequence at a time, memory maps, killed writers."""

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.dev_full import needs_dev_full

from attnlab.data.files.cache import build_once, load_arrays
from attnlab.data.files.fetch import DataError
from attnlab.data.ragged_arrays import Ragged, RaggedWriter, gather_rows, smallest_dtype

SEQUENCES = st.lists(st.lists(st.integers(0, 30_000), max_size=9), max_size=20)
WRITER = """
import sys, time
from pathlib import Path
from attnlab.data.files.cache import build_once
from attnlab.data.ragged_arrays import RaggedWriter

def build(folder):
    with RaggedWriter(folder, "texts", 255) as writer:
        for number in range(int(sys.argv[2])):
            writer.append(b"x" * 5000)
        print("writing", flush=True)
        time.sleep(60)

build_once(Path(sys.argv[1]), build, "texts")
"""


def write(folder: Path, sequences: list, largest: int = 30_000) -> None:
    with RaggedWriter(folder, "texts", largest) as writer:
        for sequence in sequences:
            writer.append(sequence)


@pytest.mark.parametrize(
    ("largest", "dtype"), [(0, "u1"), (255, "u1"), (256, "u2"), (65_535, "u2"), (65_536, "i4"), (267_744, "i4")]
)
def test_the_smallest_type_is_taken(largest: int, dtype: str) -> None:
    assert smallest_dtype(largest) == np.dtype(dtype)


@settings(max_examples=50, deadline=None)
@given(SEQUENCES, st.data())
def test_rows_keep_every_token_and_pad_the_rest(sequences: list[list[int]], data: st.DataObject) -> None:
    ragged = Ragged.of(sequences)
    assert [row.tolist() for row in map(ragged.__getitem__, range(len(ragged)))] == sequences
    assert ragged.lengths.tolist() == list(map(len, sequences))
    numbers = data.draw(st.lists(st.integers(0, len(sequences) - 1), max_size=6)) if sequences else []
    table, lengths = gather_rows(np.array(numbers), 99_999, ragged)[1]
    assert (table.dtype, lengths.dtype) == (torch.int64, torch.int64)
    assert table.shape == (len(numbers), max((len(sequences[number]) for number in numbers), default=0))
    rows = [row[:length].tolist() for row, length in zip(table, lengths, strict=True)]
    assert rows == [sequences[number] for number in numbers]
    assert int((table == 99_999).sum()) == table.numel() - int(lengths.sum())


@settings(max_examples=50, deadline=None)
@given(SEQUENCES, st.data())
def test_a_slice_is_the_slice_of_the_list(sequences: list[list[int]], data: st.DataObject) -> None:
    ragged, part = Ragged.of(sequences), data.draw(st.slices(len(sequences)))
    result = ragged[part]
    assert [row.tolist() for row in result] == sequences[part] and result.values.dtype == ragged.values.dtype
    assert result.offsets[0] == 0 and result.offsets[-1] == len(result.values)
    assert result.values.base is not None or part.step not in (None, 1)
    assert [ragged[number - len(sequences)].tolist() for number in range(len(sequences))] == sequences


def test_a_table_says_its_size() -> None:
    assert repr(Ragged.of([[1, 2, 3], [4]])) == "Ragged(2 sequences, lengths 1 to 3)"
    assert repr(Ragged.of([])) == "Ragged(0 sequences)"


@settings(max_examples=25, deadline=None)
@given(SEQUENCES)
def test_what_is_written_is_read_back_mapped(sequences: list[list[int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), sequences)
        arrays = load_arrays(Path(folder))
        assert sorted(arrays) == ["texts_offsets", "texts_values"]
        assert arrays["texts_values"].dtype == np.uint16
        ragged = Ragged.from_arrays(arrays, "texts")
        assert [row.tolist() for row in map(ragged.__getitem__, range(len(ragged)))] == sequences


def test_bytes_and_arrays_are_sequences_too(tmp_path: Path) -> None:
    write(tmp_path, [b"\x00ab\xff", np.array([3, 4], dtype=np.int8), b"", ()], 255)
    ragged = Ragged.from_arrays(load_arrays(tmp_path), "texts")
    assert isinstance(ragged.values, np.memmap)
    assert [ragged[number].tolist() for number in range(4)] == [[0, 97, 98, 255], [3, 4], [], []]
    table, lengths = gather_rows(np.array([1, 3]), 7, ragged)[1]
    assert (table.tolist(), lengths.tolist()) == ([[3, 4], [7, 7]], [2, 0])


@pytest.mark.parametrize("sequence", [[1, 256], [-1], [0.5], [float("nan")], ["a"]])
def test_what_does_not_fit_is_refused(tmp_path: Path, sequence: list) -> None:
    with pytest.raises(ValueError, match="a sequence"):
        write(tmp_path, [sequence], 255)


def test_a_writer_that_is_killed_leaves_nothing_that_counts(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    command = [sys.executable, "-c", WRITER, str(folder), "50"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        assert list(tmp_path.glob(".texts.*/texts_values.npy"))
        process.send_signal(signal.SIGKILL)
    assert not folder.exists()
    build_once(folder, lambda folder: write(folder, [[1, 2], [3]]), "texts")
    ragged = Ragged.from_arrays(load_arrays(folder), "texts")
    assert [ragged[number].tolist() for number in range(2)] == [[1, 2], [3]]
    assert not list(tmp_path.glob(".texts.*"))


@needs_dev_full
@pytest.mark.parametrize("name", ["texts_values.npy", "texts_offsets.npy"])
def test_a_full_disk_is_a_sentence(tmp_path: Path, name: str) -> None:
    def fill(folder: Path) -> None:
        (folder / name).symlink_to("/dev/full")
        write(folder, [b"x" * 10_000] * 20, 255)

    with pytest.raises(DataError, match=r"preparing texts in .* no space left"):
        build_once(tmp_path / "texts", fill, "texts")
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
