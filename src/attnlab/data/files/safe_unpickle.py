"""Unpickles a dictionary of arrays and plain values without importing or calling anything named in the file.

Only the names in numpy's pickles of arrays are admitted, and each makes a `_Part`; numpy's own functions would allocate
any size. A malicious file can still keep the process busy or crash it (a key of 100,000 nested tuples), but no more.
"""

import io
import pickle
import re
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np

from attnlab.data.files.fetch import DataError

_ARRAYS = {"numpy.ndarray", "numpy.core.multiarray._reconstruct", "numpy.core.numeric._frombuffer", "numpy.dtype"}
_BYTES = {"_codecs.encode", "__builtin__.bytes"}
_EXTENSIONS = pickle.EXT1 + pickle.EXT2 + pickle.EXT4
"""instructions that skip `find_class`"""


def read_pickle(content: bytes, where: str) -> dict[str, Any]:
    """The dictionary in a pickle of Python 2 or 3: text as keys; arrays of numbers, plain values (text of Python 2 as
    bytes) and containers of plain values.

    Args:
        where: names the file in messages.

    Raises:
        DataError: the pickle names anything but arrays, is damaged or cut short, or holds no dictionary.
    """
    try:
        return {_text(key): _value(value) for key, value in _Unpickler(content, where).load().items()}
    except DataError:
        raise
    except Exception as error:
        # a damaged file may raise any exception, as pickle's documentation says
        what = f"{where} is cut short or no pickle of arrays ({error})"
        raise DataError(f"{what}. Put the official file in its place.") from error


class _Part:
    """An array or its type: the arguments of its maker, and the state that is set afterwards."""

    state: Any = ()

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Lines(io.BytesIO):
    """Bytes of which no line is read in part, so that a name that is cut short is not refused as another name."""

    def readline(self, size: int | None = -1) -> bytes:
        if not (line := super().readline(size)).endswith(b"\n"):
            raise EOFError("it ends too early")
        return line


# In Python: the one in C allocates as many entries for remembered objects as the file asks for.
class _Unpickler(pickle._Unpickler):
    dispatch: ClassVar = {code: load for code, load in pickle._Unpickler.dispatch.items() if code not in _EXTENSIONS}
    # pickle allocates a bytearray before it reads its bytes
    dispatch[pickle.BYTEARRAY8[0]] = dispatch[pickle.BINBYTES8[0]]

    def __init__(self, content: bytes, where: str) -> None:
        super().__init__(_Lines(content), encoding="bytes")
        # one text that is encoded many times would fill the memory
        self.where, self.encoded = where, lru_cache(None)(_encoded)

    def find_class(self, module: str, name: str) -> Any:
        # numpy 2 has `_core` for `core`
        known = f"{module}.{name}".replace("numpy._core.", "numpy.core.")
        if known not in _ARRAYS | _BYTES:
            what = f"{self.where} asks for {module}.{name}, which an array does not need"
            raise DataError(f"{what}. Nothing was run. Put the official file in its place.")
        # a new object each time, because a pickle can also set attributes
        return partial(self.encoded if known in _BYTES else _Part)


def _encoded(text: str = "", codec: str = "latin1") -> bytes:
    if codec not in ("latin1", "latin-1"):
        raise ValueError(f"text to encode in {codec}")
    return text.encode("latin-1")


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _value(value: object) -> Any:
    """A plain value as it is, an array as a view of the file's bytes."""
    if isinstance(value, partial):
        raise ValueError("a value that is a function")
    if not isinstance(value, _Part):
        return value
    if value.state:
        _, shape, kind, by_columns, content = value.state
    else:
        content, kind, shape, order = value.arguments
        by_columns = order == "F"
    code = _text(kind.arguments[0])
    if not re.fullmatch("[biuf][1248]", code):
        raise ValueError(f"a numpy type other than a number: {code[:20]!r}")
    dtype = np.dtype(code).newbyteorder(_text(kind.state[1]))  # type: ignore[arg-type]
    return np.frombuffer(content, dtype).reshape(shape, order="F" if by_columns else "C")
