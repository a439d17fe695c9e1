"""The one reader of pickles: arrays and plain values are read, everything else is refused and nothing is run."""

import ctypes
import functools
import os
import pickle
import subprocess
import sys
import tracemalloc
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from support.layout_writers import python2

from attnlab.data.files.arrays_only import read_pickle
from attnlab.data.files.fetch import DataError

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
DTYPES = st.sampled_from(["?", "u1", "<i2", ">i4", "<u8", "<f4", ">f8"])
PIXELS = np.arange(2 * 3072, dtype=np.int64).astype(np.uint8).reshape(2, 3072)


def equal(found: object, expected: object) -> bool:
    return type(found) is type(expected) and found == expected


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text() | st.binary(), PLAIN, max_size=4), st.integers(2, pickle.HIGHEST_PROTOCOL))
def test_plain_values_are_read_as_pickle_reads_them(values: dict, protocol: int) -> None:
    found = read_pickle(pickle.dumps(values, protocol), "file")
    keys = {key: key.decode("latin-1") if isinstance(key, bytes) else key for key in values}
    assert found.keys() == set(keys.values())
    for key, value in values.items():
        if list(keys.values()).count(keys[key]) == 1:
            assert equal(found[keys[key]], value)


@settings(max_examples=50, deadline=None)
@given(
    arrays_of.arrays(DTYPES, arrays_of.array_shapes(min_dims=0, min_side=0)),
    st.integers(2, pickle.HIGHEST_PROTOCOL),
    st.booleans(),
)
def test_arrays_are_read_as_pickle_reads_them(array: np.ndarray, protocol: int, turned: bool) -> None:
    array = array.T if turned else array
    found = read_pickle(pickle.dumps({"a": array, "again": array}, protocol), "file")
    for name in ("a", "again"):
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def old_names(content: bytes) -> bytes:
    """As a numpy before 2 wrote it."""
    assert b"numpy._core" in content
    return content.replace(b"numpy._core", b"numpy.core")


@pytest.mark.parametrize("protocol", [2, 3])
def test_the_names_of_numpy_before_2_are_read(protocol: int) -> None:
    # protocol 4 gives lengths of names, which shorter ones would break
    content = old_names(pickle.dumps({b"data": PIXELS}, protocol))
    np.testing.assert_array_equal(read_pickle(content, "file")["data"], PIXELS)


@pytest.mark.parametrize("protocol", [0, 1])
def test_earlier_protocols_are_refused(protocol: int) -> None:
    with pytest.raises(DataError, match=r"file is .*no pickle of arrays \(it does not begin as one of protocol 2"):
        read_pickle(pickle.dumps({"data": PIXELS}, protocol), "file")


def test_python_2_is_read() -> None:
    content = python2.batch(PIXELS, [6, 9], ["a.png", "b.png"])
    expected = pickle.loads(content, encoding="bytes")
    found = read_pickle(content, "file")
    assert {key.encode(): value for key, value in found.items() if key != "data"} == {
        key: value for key, value in expected.items() if key != b"data"
    }
    np.testing.assert_array_equal(found["data"], expected[b"data"])
    assert found["data"].dtype == np.uint8


class Calls:
    """Pickles as a call of a function with arguments."""

    def __init__(self, function: Callable, *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple:
        return self.call


class Plain:
    pass


def builtin(name: str) -> set[str]:
    # protocols below 4 have the names of Python 2
    return {f"builtins.{name}", f"__builtin__.{name}"}


HOSTILE = {  # what is pickled, and what the file then asks for
    "os.system": (Calls(os.system, "touch {place}"), {f"{os.name}.system"}),
    "eval": (Calls(eval, "open('{place}', 'w')"), builtin("eval")),
    "exec": (Calls(exec, "open('{place}', 'w')"), builtin("exec")),
    "open": (Calls(open, "{place}", "w"), {"io.open", "_io.open"}),
    "getattr": (Calls(getattr, Calls(eval, "1"), "real"), builtin("getattr")),
    "bytearray": (Calls(bytearray, 2**40), builtin("bytearray")),
    "Popen": (Calls(subprocess.Popen, ["touch", "{place}"]), {"subprocess.Popen", "commands.Popen"}),
    "method": (Calls(Path.touch, Calls(Path, "{place}")), {"pathlib.Path.touch", *builtin("getattr")}),
    "partial": (functools.partial(print, "x"), {"functools.partial"}),
    "ordered dictionary": (OrderedDict(a=1), {"collections.OrderedDict"}),
    "ctypes": (Calls(ctypes.string_at, 0), {"ctypes.string_at"}),
    "object": (Plain(), {"test_arrays_only.Plain"}),
    "class": (Plain, {"test_arrays_only.Plain"}),
    "numpy's load": (Calls(np.load, "{place}"), {"numpy.load"}),
    "numpy's fromfile": (Calls(np.fromfile, "{place}"), {"numpy.fromfile"}),
    "numpy's scalar": (np.float64(1.0), {"numpy._core.multiarray.scalar"}),
    "complex": (1j, builtin("complex")),
    "set": ({1, 2}, {*builtin("set"), "the pickle instruction EMPTY_SET"}),
    "frozenset": (frozenset([1]), {*builtin("frozenset"), "the pickle instruction FROZENSET"}),
    "pickle in a pickle": (
        Calls(pickle.loads, pickle.dumps(Calls(os.system, "touch {place}"))),
        {"_pickle.loads", "pickle.loads"},
    ),
}


def filled(thing: object, place: Path) -> object:
    """The same call, told to leave a trace at `place`."""
    if isinstance(thing, Calls):
        function, arguments = thing.call
        return Calls(function, *(filled(argument, place) for argument in arguments))
    if isinstance(thing, list):
        return [filled(item, place) for item in thing]
    return thing.replace("{place}", str(place)) if isinstance(thing, str) else thing


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("name", HOSTILE)
def test_everything_else_is_refused_by_name_and_not_run(tmp_path: Path, name: str, protocol: int) -> None:
    place = tmp_path / "trace"
    thing, names = HOSTILE[name]
    content = pickle.dumps({"data": PIXELS, "labels": [1, filled(thing, place)]}, protocol)
    before = set(sys.modules)
    with pytest.raises(DataError, match=r"Nothing was run\. Put the official file") as error:
        read_pickle(content, "cifar/data_batch_1")
    asked = str(error.value).partition(", which an array does not need")[0].removeprefix("cifar/data_batch_1 asks for ")
    assert asked in names
    assert not place.exists()
    assert set(sys.modules) == before


def test_the_hostile_pickles_would_work(tmp_path: Path) -> None:
    for name in ("os.system", "eval", "exec", "open", "method"):
        place = tmp_path / name
        with suppress(Exception):
            pickle.loads(pickle.dumps(filled(HOSTILE[name][0], place)))
        assert place.exists(), name


OPCODES = {
    "persistent id": b"\x80\x02}U\x01aU\x01bQs.",
    "extension registry": b"\x80\x02}U\x01a\x82\x01s.",
    "instance": b"\x80\x02}U\x01a(ios\nsystem\ns.",
    "object": b"\x80\x02}U\x01a(cos\nsystem\nos.",
    "new object": b"\x80\x02}U\x01acnumpy\nndarray\n)\x81s.",
    "set": b"\x80\x04}\x8c\x01a\x8fs.",
    "buffer out of the pickle": b"\x80\x05}\x8c\x01a\x97s.",
}


@pytest.mark.parametrize("kind", OPCODES)
def test_other_instructions_are_refused(kind: str) -> None:
    with pytest.raises(DataError, match=r"file asks for (the pickle instruction [A-Z0-9_]+|os\.system), which"):
        read_pickle(OPCODES[kind], "file")


ENCODE, DTYPE = b"c_codecs\nencode\n", b"cnumpy\ndtype\n"
RECONSTRUCT = b"cnumpy.core.multiarray\n_reconstruct\n"
U1 = DTYPE + b"U\x02u1K\x00K\x01\x87R"
MISUSED = {
    "encode to another code": b"}U\x01a" + ENCODE + b"X\x01\x00\x00\x00xX\x05\x00\x00\x00utf-8\x86Rs.",
    "encode without arguments": b"}U\x01a" + ENCODE + b")Rs.",
    "bytes with an argument": b"}U\x01ac__builtin__\nbytes\nK\x05\x85Rs.",
    "reconstruct something else": b"}U\x01a" + RECONSTRUCT + DTYPE + b"K\x00\x85U\x01b\x87Rs.",
    "reconstruct a large one": b"}U\x01a" + RECONSTRUCT + b"cnumpy\nndarray\nJ\xff\xff\xff\x7f\x85U\x01b\x87Rs.",
    "call of an array class": b"}U\x01acnumpy\nndarray\nJ\xff\xff\xff\x7f\x85Rs.",
    "call of a number": b"}U\x01aK\x01K\x02\x85Rs.",
    "state of a function": b"}U\x01a" + ENCODE + b"}bs.",
    "state of a dictionary": b"}U\x01a}(tbs.",
    "deep key": b"}" + b")" + b"\x85" * 100_000 + b"K\x01s.",
    "list as a key": b"}]K\x01s.",
    "key without a value": b"}(U\x01au.",
    "append to a number": b"}U\x01aK\x01K\x02as.",
    "set in a list": b"]K\x01K\x02s.",
    "no dictionary": b"]K\x01a.",
    "instructions of protocol 0": b"(dS'a'\nI1\ns.",
    "nothing": b".",
    "absent memo": b"h\x05.",
    "absent mark": b"}K\x01t.",
    "tuple of too little": b"}\x86.",
}
ARRAYS = {
    "object type": (b"U\x02O8", b"U\x01|NNN", b"(K\x01t", b"\x89", b"U\x01x"),
    "structured type": (b"U\x02V4", b"U\x01|NNN", b"(K\x01t", b"\x89", b"U\x04xxxx"),
    "fields": (b"U\x02u1", b"U\x01|NU\x01aN", b"(K\x01t", b"\x89", b"U\x01x"),
    "byte order": (b"U\x02u1", b"U\x01uNNN", b"(K\x01t", b"\x89", b"U\x01x"),
    "byte order that is none": (b"U\x02u1", b")NNN", b"(K\x01t", b"\x89", b"U\x01x"),
    "too short": (b"U\x02u1", b"U\x01|NNN", b"(J\xff\xff\xff\x7ft", b"\x89", b"U\x01x"),
    "too long": (b"U\x02u1", b"U\x01|NNN", b"(K\x01t", b"\x89", b"U\x02xx"),
    "negative": (b"U\x02u1", b"U\x01|NNN", b"(J\xff\xff\xff\xffJ\xff\xff\xff\xfft", b"\x89", b"U\x01x"),
    "shape of text": (b"U\x02u1", b"U\x01|NNN", b"U\x01a", b"\x89", b"U\x01x"),
    "content of a list": (b"U\x02u1", b"U\x01|NNN", b"(K\x01t", b"\x89", b"](K\x01e"),
    "content missing": (b"U\x02u1", b"U\x01|NNN", b"(K\x01t", b"\x89", b""),
}


def with_array(kind: bytes, order: bytes, shape: bytes, turned: bytes, content: bytes) -> bytes:
    kind = DTYPE + kind + b"K\x00K\x01\x87R(K\x03" + order + b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    begun = RECONSTRUCT + b"cnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    return b"}U\x01a" + begun + b"(K\x01" + shape + kind + turned + content + b"tbs."


def test_the_frame_of_these_arrays_is_right() -> None:
    content = b"\x80\x02" + with_array(b"U\x02u1", b"U\x01|NNN", b"(K\x02t", b"\x89", b"U\x02xy")
    assert read_pickle(content, "file")["a"].tolist() == [120, 121]


@pytest.mark.parametrize("case", [*MISUSED, *ARRAYS])
def test_admitted_names_are_good_for_arrays_only(case: str) -> None:
    content = MISUSED[case] if case in MISUSED else with_array(*ARRAYS[case])
    with pytest.raises(DataError, match=r"^file (is cut short or no pickle of arrays \(|asks for )"):
        read_pickle(b"\x80\x02" + content, "file")


HUGE = {
    "text": b"\x80\x04\x8d" + b"\xff" * 7 + b"\x00.",
    "bytes": b"\x80\x04\x8e" + b"\x00" * 5 + b"\x01\x00\x00.",
    "bytearray": b"\x80\x05\x96" + b"\x00" * 5 + b"\x01\x00\x00.",
    "frame": b"\x80\x04\x95" + b"\x00" * 5 + b"\x01\x00\x00.",
    "number": b"\x80\x02\x8b\xff\xff\xff\x7f.",
    "place in the memo": b"\x80\x02}r\xff\xff\xff\x7f.",
    "text encoded again and again": b"\x80\x02](X\x00\x00\x10\x00" + b"x" * 2**20 + b"q\x00"
    + (ENCODE + b"h\x00X\x06\x00\x00\x00latin1\x86R") * 200 + b"e.",
}  # fmt: skip


@pytest.mark.parametrize("kind", HUGE)
def test_claims_of_huge_things_take_no_memory(kind: str) -> None:
    tracemalloc.start()
    with suppress(DataError):
        read_pickle(HUGE[kind], "file")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


def test_references_that_multiply_or_turn_in_circles_are_harmless() -> None:
    lists: list = []
    for _ in range(60):
        lists = [lists, lists]
    circle: list = []
    circle.append(circle)
    found = read_pickle(pickle.dumps({"lists": lists, "circle": circle, "n": 1}, 2), "file")
    assert found["n"] == 1
    assert found["circle"][0] is found["circle"]


@pytest.mark.parametrize("share", [0, 1, 10, 500, 3000])
def test_a_cut_pickle_is_named(share: int) -> None:
    for content in (python2.batch(PIXELS, [1, 2], ["a", "b"]), pickle.dumps({"data": PIXELS, "labels": [1, 2]})):
        with pytest.raises(DataError, match=r"^batch is cut short or no pickle of arrays .*official file"):
            read_pickle(content[: len(content) * share // 3001], "batch")


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_noise_is_an_error_that_names_the_file(noise: bytes) -> None:
    for content in (noise, b"\x80\x02}U\x01a" + noise + b"s."):
        try:
            assert isinstance(read_pickle(content, "file"), dict)
        except DataError as error:
            assert str(error).startswith("file ")
