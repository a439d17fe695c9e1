"""Writers of `.npy` files."""

from pathlib import Path
from typing import BinaryIO

import numpy as np


def save_arrays(folder: Path, **arrays: np.ndarray) -> None:
    """Writes each array to `<folder>/<name>.npy`.

    np.save is not used, because its error on a full disk has no error number.
    """
    for name, array in arrays.items():
        with (folder / f"{name}.npy").open("wb") as file:
            contiguous = np.ascontiguousarray(array)
            write_header(file, contiguous.dtype, contiguous.shape)
            file.write(contiguous.data)


def write_header(file: BinaryIO, dtype: np.dtype, shape: tuple[int, ...]) -> None:
    """Writes the header of a `.npy` file, which has room for a longer first dimension."""
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
