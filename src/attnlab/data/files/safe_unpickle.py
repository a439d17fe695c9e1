"""Unpickles a dictionary of arrays and plain values; nothing else that the file names is imported or called."""

import io
import pickle
from typing import Any

import numpy as np

from attnlab.data.files.fetch import DataError


def read_pickle(content: bytes, where: str) -> dict[str, Any]:
    """The dictionary in a pickle of Python 2 or 3: text as keys; arrays of numbers, plain values (text of Python 2 as
    bytes) and containers of plain values.

    Args:
        where: names the file in messages.

    Raises:
        DataError: the pickle names anything but arrays, is damaged or cut short, or holds no dictionary.
    """
    try:
        values = _Unpickler(content, where).load().items()
        return {key.decode("latin-1") if isinstance(key, bytes) else str(key): value for key, value in values}
    except DataError:
        raise
    except Exception as error:
        # a damaged file may raise any exception, as pickle's documentation says
        problem = f"{where} is cut short or no pickle of arrays ({error})"
        raise DataError(f"{problem}. Put the official file in its place.") from error


def _bytes(text: str = "", codec: str = "latin1") -> bytes:
    """Bytes, which Python 3 writes as text in old protocols."""
    return text.encode(codec)


_MAKERS = {
    "numpy.ndarray": np.ndarray,
    "numpy.dtype": np.dtype,
    "numpy.core.multiarray._reconstruct": np.zeros(0).__reduce__()[0],
    "numpy.core.numeric._frombuffer": np.zeros(0).__reduce_ex__(5)[0],
    "_codecs.encode": _bytes,
    "__builtin__.bytes": _bytes,
}
"""what stands for the names in numpy's pickles of arrays"""


class _WholeLines(io.BytesIO):
    """Bytes of which no line is read in part, so that a name that is cut short is not refused as another name."""

    def readline(self, size: int | None = -1) -> bytes:
        if not (line := super().readline(size)).endswith(b"\n"):
            raise EOFError("it ends too early")
        return line


# in Python: the one in C fills as many entries for remembered objects as the file asks for
class _Unpickler(pickle._Unpickler):
    def __init__(self, content: bytes, where: str) -> None:
        super().__init__(_WholeLines(content), encoding="bytes")
        self.where = where

    def find_class(self, module: str, name: str) -> Any:
        # numpy 2 has `_core` for `core`
        maker = _MAKERS.get(f"{module}.{name}".replace("numpy._core.", "numpy.core."))
        if maker is None:
            problem = f"{self.where} asks for {module}.{name}, which an array does not need"
            raise DataError(f"{problem}. Nothing was run. Put the official file in its place.")
        return maker
