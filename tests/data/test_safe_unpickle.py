"""Unpickling reads arrays and plain values, refuses every other name, and runs nothing."""

import os
import pickle
import tracemalloc
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from support.official_layout_converters import python2

from attnlab.data.files.fetch import DataError
from attnlab.data.files.safe_unpickle import read_pickle

PROTOCOLS = st.integers(0, pickle.HIGHEST_PROTOCOL)
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
NESTED = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text(), inner))
DTYPES = st.sampled_from(["?", "u1", "<i2", ">i4", "<u8", "<f4", ">f8"])
ARRAYS = arrays_of.arrays(DTYPES, arrays_of.array_shapes(min_dims=0, min_side=0))
PIXELS = np.arange(2 * 3072, dtype=np.int64).astype(np.uint8).reshape(2, 3072)
BATCH = python2.batch(PIXELS, [6, 9], ["a.png", "b.png"])
CONTENT = python2.string(PIXELS.tobytes())
MALFORMED = r"(?s)^file is cut short or no pickle of arrays \(.*official file"


def holding(value: bytes) -> bytes:
    """A pickle of {"a": value}; `value` is written as instructions."""
    return b"\x80\x02}U\x01a" + value + b"s."


@settings(max_examples=50, deadline=None)
@given(NESTED, ARRAYS, PROTOCOLS)
def test_values_and_arrays_are_read_as_pickle_reads_them(value: object, array: np.ndarray, protocol: int) -> None:
    actual = read_pickle(pickle.dumps({"value": value, b"array": array, "turned": array.T}, protocol), "file")
    assert type(actual["value"]) is type(value)
    assert actual["value"] == value
    for key, expected in (("array", array), ("turned", array.T)):
        assert actual[key].dtype.newbyteorder("=") == array.dtype.newbyteorder("=")
        np.testing.assert_array_equal(actual[key], expected)


@pytest.mark.parametrize("numpy", [b"numpy.core", b"numpy._core"])
@pytest.mark.parametrize("python", [2, 3])
def test_batches_of_every_writer_are_read(python: int, numpy: bytes) -> None:
    expected = {"batch_label": b"training batch 1 of 5", "labels": [6, 9], "filenames": [b"a.png", b"b.png"]}
    of_python3 = pickle.dumps({key.encode(): value for key, value in expected.items()} | {b"data": PIXELS}, 2)
    content = (BATCH if python == 2 else of_python3).replace(b"numpy._core", b"numpy.core")
    actual = read_pickle(content.replace(b"numpy.core", numpy), "file")
    np.testing.assert_array_equal(actual.pop("data"), PIXELS)
    assert actual == expected


class Hostile:
    """Is pickled as the call of a function."""

    def __init__(self, function: object, *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple:
        return self.call


TRACE = "open('trace', 'w')"
HOSTILE = {
    "posix.system": pickle.dumps(Hostile(os.system, "touch trace")),
    "__builtin__.eval": pickle.dumps(Hostile(eval, TRACE), 2),
    "builtins.exec": pickle.dumps([{"labels": Hostile(exec, TRACE)}], 4),
    "_pickle.loads": pickle.dumps(Hostile(pickle.loads, pickle.dumps(Hostile(eval, TRACE))), 4),
    "test_safe_unpickle.Hostile": pickle.dumps(Hostile),
    "numpy._core.multiarray.scalar": pickle.dumps({"a": np.float64(1.0)}),
    "collections.OrderedDict": holding(b"ccollections\nOrderedDict\n)R"),
    "os.system": holding(b"(U\x0btouch traceios\nsystem\n"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_every_other_name_is_refused_and_nothing_is_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError) as error:
        read_pickle(HOSTILE[name], "cifar/data_batch_1")
    advice = "which an array does not need. Nothing was run. Put the official file in its place."
    assert str(error.value) == f"cifar/data_batch_1 asks for {name}, {advice}"
    assert not Path("trace").exists()
    # where it is run, it does what it says
    pickle.loads(HOSTILE[name], encoding="bytes")
    assert Path("trace").exists() == (b"trace" in HOSTILE[name])


WRONG = {
    "objects": BATCH.replace(b"U\x02u1", b"U\x02O8"),
    "records": BATCH.replace(b"U\x02u1", b"U\x02V1"),
    "too short": BATCH.replace(b"(J\x02\x00\x00\x00", b"(J\xff\xff\xff\x7f"),
    "too long": BATCH.replace(b"(J\x02\x00\x00\x00", b"(J\x01\x00\x00\x00"),
    "no content": BATCH.replace(CONTENT, b""),
    "object without a call": holding(b"cnumpy\nndarray\n)\x81"),
    "persistent id": holding(b"U\x01aQ"),
    "no dictionary": b"\x80\x02]K\x01a.",
    "absent memo": b"\x80\x02h\x05.",
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_dictionary_of_arrays_is_refused(case: str) -> None:
    assert WRONG[case] != BATCH
    with pytest.raises(DataError, match=MALFORMED):
        read_pickle(WRONG[case], "file")


HUGE = {
    "text": b"\x80\x04\x8d" + b"\xff" * 7 + b"\x00.",
    "memo": b"\x80\x02}r\xff\xff\xff\x00.",
}


@pytest.mark.parametrize("kind", HUGE)
def test_claims_of_huge_things_take_no_memory(kind: str) -> None:
    tracemalloc.start()
    with suppress(DataError):
        read_pickle(HUGE[kind], "file")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


@settings(max_examples=50, deadline=None)
@given(PROTOCOLS, st.floats(0, 0.999))
def test_a_cut_pickle_is_named(protocol: int, share: float) -> None:
    for content in (BATCH, pickle.dumps({"data": PIXELS, "labels": [1, 2]}, protocol)):
        with pytest.raises(DataError, match=MALFORMED):
            read_pickle(content[: int(len(content) * share)], "file")


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_noise_is_an_error_that_names_the_file(noise: bytes) -> None:
    for content in (noise, holding(noise)):
        try:
            assert isinstance(read_pickle(content, "file"), dict)
        except DataError as error:
            assert str(error).startswith("file ")
