"""Pickles of a dictionary of arrays and plain values, read without running anything that they ask for.

A pickle is a program: `pickle.load` imports and calls whatever it names. Here its instructions (`pickletools.genops`)
are followed one by one. Of names, only those are admitted by which numpy writes an array, and what they stand for is
done here: no function is ever called because a file says so. Everything else is refused by its name.

Read are pickles of protocol 2 and later, written by Python 2 (whose text then is bytes) or 3, by any numpy.
"""

import math
import pickletools
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnlab.data.files.fetch import DataError

ADMITTED = {
    "numpy.ndarray",
    "numpy.dtype",
    "numpy.core.multiarray._reconstruct",
    "numpy.core.numeric._frombuffer",
    "_codecs.encode",
    "__builtin__.bytes",
}
"""names that arrays are written with; numpy 2 has `_core` for `core`"""
NUMBERS = re.compile(r"[biuf][1248]")
"""types of arrays: bool, integers and floats"""
MOST_STEPS = 5_000_000
"""instructions of a pickle; CIFAR-10's batches have some 60,000"""

_VALUES = {"BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE"}
_VALUES |= {"BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"}
_FRESH = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_NOTHING = {"PROTO", "FRAME"}


def read_pickle(content: bytes, where: str) -> dict[str, Any]:
    """The dictionary that a pickle holds: keys as text; values are arrays, numbers, text, bytes and containers of the
    latter. Arrays that lie deeper, in a list for instance, stay unread.

    Args:
        where: names the file in messages.

    Raises:
        DataError: it names anything but arrays, does not follow the format, is cut short or holds no dictionary.
    """
    try:
        found = _Machine(where, len(content)).run(content)
        if not isinstance(found, dict):
            raise ValueError("it holds no dictionary")
        return {_text(key): value.array() if isinstance(value, _Array) else value for key, value in found.items()}
    except (ValueError, TypeError, AttributeError, LookupError, OverflowError) as error:
        what = f"{where} is cut short or no pickle of arrays ({error})"
        raise DataError(f"{what}. Put the official file in its place.") from error


@dataclass(frozen=True)
class _Name:
    """A function or class that the pickle names."""

    name: str


@dataclass
class _Type:
    """A numpy type; `order` is its byte order."""

    code: str
    order: str = "|"

    def build(self, state: tuple) -> None:
        version, order, *rest = state
        if version not in (3, 4) or any(part is not None for part in rest[:3]):
            raise ValueError("a numpy type other than a number")
        self.order = _text(order)

    def dtype(self) -> np.dtype:
        if not NUMBERS.fullmatch(self.code) or self.order not in "|<>=":
            raise ValueError("a numpy type other than a number")
        return np.dtype(self.order + self.code)


@dataclass
class _Array:
    """An array; empty until its state is set."""

    state: tuple[Any, ...] = ()

    def build(self, state: tuple) -> None:
        version, *self.state = state
        if version != 1:
            raise ValueError("an array of another version of the format")

    def array(self) -> np.ndarray:
        shape, kind, columns_first, content = self.state
        if not isinstance(kind, _Type) or not isinstance(content, bytes | bytearray):
            raise ValueError("an array of something other than numbers")
        if not all(isinstance(size, int) and size >= 0 for size in shape):
            raise ValueError("an array without a shape")
        dtype = kind.dtype()
        if (expected := math.prod(shape) * dtype.itemsize) != len(content):
            raise ValueError(f"an array of {len(content)} bytes where its shape needs {expected}")
        return np.ndarray(shape, dtype, buffer=content, order="F" if columns_first else "C")


class _Machine:
    """Follows the instructions of one pickle.

    Args:
        size: bytes of the pickle; no more are encoded, so that a text named again and again does not fill memory.
    """

    def __init__(self, where: str, size: int) -> None:
        self.where, self.left = where, size
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self, content: bytes) -> Any:
        if not content.startswith(b"\x80"):
            raise ValueError("it does not begin as one of protocol 2 or later")
        for step, (opcode, argument, _) in enumerate(pickletools.genops(content)):
            name = opcode.name
            if step > MOST_STEPS:
                raise ValueError(f"more than {MOST_STEPS} instructions")
            if name == "STOP":
                return self.stack.pop()
            if name in _VALUES:
                self.stack.append(argument)
            elif name in _FRESH:
                self.stack.append(_FRESH[name]())
            elif name in _CONSTANTS:
                self.stack.append(_CONSTANTS[name])
            elif name in _ACTIONS:
                _ACTIONS[name](self, argument)
            elif name not in _NOTHING:
                raise self._refuse(f"the pickle instruction {name}")
        raise ValueError("no end")

    def _refuse(self, what: str) -> DataError:
        advice = "Nothing was run. Put the official file in its place"
        return DataError(f"{self.where} asks for {what}, which an array does not need. {advice}.")

    def _string(self, text: str) -> None:
        # genops reads Python 2's text, which is bytes, as latin-1
        self.stack.append(text.encode("latin-1"))

    def _mark(self, _: object) -> None:
        self.marks.append(len(self.stack))

    def _since_mark(self) -> list[Any]:
        start = self.marks.pop()
        items, self.stack[start:] = self.stack[start:], []
        return items

    def _put(self, place: int | None) -> None:
        self.memo[len(self.memo) if place is None else place] = self.stack[-1]

    def _get(self, place: int) -> None:
        self.stack.append(self.memo[place])

    def _tuple(self, items: list[Any]) -> None:
        self.stack.append(tuple(items))

    def _pop(self, count: int) -> list[Any]:
        if len(self.stack) < count:
            raise ValueError("a value is missing")
        items, self.stack[-count:] = self.stack[-count:], []
        return items

    def _append(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise ValueError("something appended to what is no list")
        self.stack[-1].extend(items)

    def _set_items(self, items: list[Any]) -> None:
        # other keys, deep tuples for instance, would be hashed by code that does not expect hostile ones
        if not isinstance(self.stack[-1], dict) or not all(isinstance(key, str | bytes | int) for key in items[::2]):
            raise ValueError("something set in what is no dictionary with plain keys")
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))

    def _name(self, name: str) -> None:
        if (known := name.replace("numpy._core.", "numpy.core.")) not in ADMITTED:
            raise self._refuse(name)
        self.stack.append(_Name(known))

    def _name_on_stack(self, _: object) -> None:
        module, name = self._pop(2)
        if not isinstance(module, str) or not isinstance(name, str):
            raise ValueError("a name that is no text")
        self._name(f"{module}.{name}")

    def _call(self, _: object) -> None:
        function, arguments = self._pop(2)
        match function, arguments:
            case _Name(name="_codecs.encode"), (str() as text, "latin1" | "latin-1"):
                self.left -= len(text)
                if self.left < 0:
                    raise ValueError("more text encoded than it holds")
                self.stack.append(text.encode("latin-1"))
            case _Name(name="__builtin__.bytes"), ():
                self.stack.append(b"")
            case _Name(name="numpy.core.multiarray._reconstruct"), (_Name(name="numpy.ndarray"), (0,), b"b" | "b"):
                self.stack.append(_Array())
            case _Name(name="numpy.dtype"), (str() | bytes() as code, *_):
                self.stack.append(_Type(_text(code)))
            case _Name(name="numpy.core.numeric._frombuffer"), (content, kind, shape, "C" | "F" as order):
                self.stack.append(_Array((shape, kind, order == "F", content)))
            case _:
                raise ValueError("a call that builds no array")

    def _build(self, _: object) -> None:
        state = self._pop(1)[0]
        if not isinstance(self.stack[-1], _Array | _Type) or not isinstance(state, tuple):
            raise ValueError("a state for what is no array")
        self.stack[-1].build(state)


def _text(value: Any) -> str:
    if not isinstance(value, str | bytes | int):
        raise ValueError("text expected")
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


_ACTIONS = {
    "BINSTRING": _Machine._string,
    "SHORT_BINSTRING": _Machine._string,
    "MARK": _Machine._mark,
    "BINPUT": _Machine._put,
    "LONG_BINPUT": _Machine._put,
    "MEMOIZE": _Machine._put,
    "BINGET": _Machine._get,
    "LONG_BINGET": _Machine._get,
    "TUPLE": lambda self, _: self._tuple(self._since_mark()),
    "TUPLE1": lambda self, _: self._tuple(self._pop(1)),
    "TUPLE2": lambda self, _: self._tuple(self._pop(2)),
    "TUPLE3": lambda self, _: self._tuple(self._pop(3)),
    "APPEND": lambda self, _: self._append(self._pop(1)),
    "APPENDS": lambda self, _: self._append(self._since_mark()),
    "SETITEM": lambda self, _: self._set_items(self._pop(2)),
    "SETITEMS": lambda self, _: self._set_items(self._since_mark()),
    "GLOBAL": lambda self, name: self._name(name.replace(" ", ".")),
    "STACK_GLOBAL": _Machine._name_on_stack,
    "REDUCE": _Machine._call,
    "BUILD": _Machine._build,
}
