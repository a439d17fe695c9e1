"""Unpickles a dictionary of arrays and plain values without importing or calling anything named in the file.

A pickle may call any function by name. Here only the names in numpy's pickles of arrays are admitted, and a small
replacement in this module is called for each: numpy's own functions allocate any size and accept any type that the file
asks for. A malicious file can still keep the process busy or crash it (a key of 100,000 nested tuples), but no more.
"""

import io
import pickle
import pickletools
import re
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, cast

import numpy as np

from attnlab.data.files.fetch import DataError

MOST_STEPS = 5_000_000
"""instructions of a pickle; CIFAR-10's batches have about 60,000"""
FRAME_BYTES = 9
"""size of the instruction that begins a frame, with the length of the frame"""


def read_pickle(content: bytes, where: str) -> dict[str, Any]:
    """The dictionary in a pickle of Python 2 or 3.

    Keys become text; values are arrays of numbers, plain values (text of Python 2 as bytes) and containers of plain
    values. Arrays inside containers are not read.

    Args:
        where: names the file in messages.

    Raises:
        DataError: the pickle names anything but arrays, is damaged or cut short, or holds no dictionary.
    """
    try:
        found = _Unpickler(_bounded(content), where).load()
        if not isinstance(found, dict):
            raise ValueError("it holds no dictionary")
        return {_text(key): _value(value) for key, value in found.items()}
    except DataError:
        raise
    except Exception as error:
        # a damaged file may raise any exception, as pickle's documentation says
        what = f"{where} is cut short or no pickle of arrays ({error})"
        raise DataError(f"{what}. Put the official file in its place.") from error


def _bounded(content: bytes) -> bytes:
    """The same pickle without frames: across the end of a frame, pickle reads other instructions than genops.

    Refuses hidden allocations: lengths beyond the end (an error of genops) and large memo indices. Also refuses the
    extension registry, because names in its cache skip `find_class`.
    """
    parts, start = [], 0
    for step, (opcode, argument, position) in enumerate(pickletools.genops(content)):
        if step > MOST_STEPS:
            raise ValueError(f"more than {MOST_STEPS} instructions")
        if opcode.name.startswith("EXT") or ("PUT" in opcode.name and (argument is None or argument > step)):
            raise ValueError(f"{opcode.name} {argument} as instruction {step}")
        if opcode.name == "FRAME":
            # only files that cannot tell their position have none
            start_of_frame = cast(int, position)
            parts.append(content[start:start_of_frame])
            start = start_of_frame + FRAME_BYTES
    return b"".join((*parts, content[start:]))


class _Unpickler(pickle.Unpickler):
    """Calls a replacement for each admitted name, and refuses all other names."""

    def __init__(self, content: bytes, where: str) -> None:
        super().__init__(io.BytesIO(content), encoding="bytes")
        self.where, self.left = where, len(content)
        self.admitted: dict[str, Callable] = {
            "numpy.ndarray": _Array,
            "numpy.dtype": _Type,
            "numpy.core.multiarray._reconstruct": _Array,
            "numpy.core.numeric._frombuffer": _frombuffer,
            "_codecs.encode": self._encode,
            "__builtin__.bytes": self._encode,
        }

    def find_class(self, module: str, name: str) -> Callable:
        # numpy 2 has `_core` for `core`
        known = self.admitted.get(f"{module}.{name}".replace("numpy._core.", "numpy.core."))
        if known is None:
            what = f"{self.where} asks for {module}.{name}, which an array does not need"
            raise DataError(f"{what}. Nothing was run. Put the official file in its place.")
        # a new object each time, because a pickle can also set attributes
        return partial(known)

    def _encode(self, text: str = "", codec: str = "latin1") -> bytes:
        # encoding one text many times would fill the memory
        self.left -= len(text)
        if codec not in ("latin1", "latin-1") or self.left < 0:
            raise ValueError(f"{len(text)} characters to encode in {codec}")
        return text.encode("latin-1")


class _Type:
    """Replacement for a numeric dtype; its state holds the byte order."""

    def __init__(self, code: str | bytes, *_: object) -> None:
        if not re.fullmatch("[biuf][1248]", _text(code)):
            raise ValueError(f"a numpy type other than a number: {_text(code)[:20]!r}")
        self.dtype = np.dtype(_text(code))

    def __setstate__(self, state: tuple) -> None:
        # numpy refuses other letters
        self.dtype = self.dtype.newbyteorder(cast(Literal["<", ">", "=", "|"], _text(state[1])))


class _Array:
    """Replacement for an array: empty until its state is set, then a view of the file's bytes."""

    def __init__(self, *_: object) -> None:
        self.value = np.empty(0)

    def __setstate__(self, state: tuple) -> None:
        _, shape, kind, by_columns, content = state
        self.value = np.frombuffer(content, kind.dtype).reshape(shape, order="F" if by_columns else "C")


def _frombuffer(content: bytes, kind: _Type, shape: tuple[int, ...], order: str) -> _Array:
    array = _Array()
    array.__setstate__((1, shape, kind, order == "F", content))
    return array


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _value(value: object) -> Any:
    if isinstance(value, _Type | partial):
        raise ValueError("a value that is a type or a function")
    return value.value if isinstance(value, _Array) else value
