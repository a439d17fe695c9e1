"""Long Range Arena, image (Tay et al. 2021, arXiv 2011.04006): CIFAR-10 in grey, read pixel by pixel, ten classes.

One example, the first of `train` in the copy of CIFAR-10 that the tests read (its colours passed through JPEG):

    grey values, row by row: 185 183 181 181 182 183 184 184 ... 114 109 120   (1,024 in all)
    class: 8 (ship)

The data is the official pickled batches (Krizhevsky 2009), in the official archive or unpacked. A grey value is LRA's,
from `tf.image.rgb_to_grayscale`: (0.2989 red + 0.5870 green + 0.1140 blue) / 255 times 255.5, rounded down. It is
computed here with integers; float32 is off by one level for one colour in 70,000. `val` is the last tenth of the
training batches in the order of the files; LRA uses the last tenth in the order of tensorflow_datasets.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from attnlab.config.message_text import listed
from attnlab.data.files.cache import load_arrays, save_arrays
from attnlab.data.files.fetch import DataError, Folders
from attnlab.data.files.folder_or_archive import DataSource, FileTree, whole
from attnlab.data.files.official_files import read_table
from attnlab.data.files.progress import track
from attnlab.data.files.safe_unpickle import read_pickle
from attnlab.data.picture_sequences import SIDE, GreyPictures
from attnlab.tasks.base import Prepared
from attnlab.tasks.lra.common import LraPictures

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
OFFICIAL = read_table(__file__)["image"]
BATCHES = OFFICIAL.digests
"""md5 of the official files"""
TRAINING = [name for name in BATCHES if name.startswith("data_batch")]
Batches = dict[str, tuple[np.ndarray, np.ndarray]]
"""grey pictures [n, 32, 32] and classes [n] by the name of their file"""


def to_grey(pixels: np.ndarray) -> np.ndarray:
    """Grey values [n, 32, 32] uint8 of pictures [n, 3072] uint8: all red, then all green, then all blue values."""
    red, green, blue = np.moveaxis(pixels.reshape(-1, 3, SIDE, SIDE).astype(np.int32), 1, 0)
    # 255.5 / 255 of the weighted sum as a fraction; the largest numerator is 1.31e9
    return ((2989 * red + 5870 * green + 1140 * blue) * 511 // 5_100_000).astype(np.uint8)


def parse_batch(content: bytes, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Grey pictures [n, 32, 32] and classes [n], uint8, of a pickled batch.

    Raises:
        DataError: it is not a batch of CIFAR-10; names the file and the problem.
    """
    batch = read_pickle(content, where)
    pixels, labels = batch.get("data"), batch.get("labels")
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (3 * SIDE**2,):
        raise _no_batch(where, f"data is {_describe(pixels)}; expected uint8 of shape n x {3 * SIDE**2}")
    if not isinstance(labels, list) or len(labels) != len(pixels) or not labels:
        raise _no_batch(where, f"labels are {_describe(labels)}; expected a list of {len(pixels)}, one a picture")
    for number, label in enumerate(labels):
        if type(label) is not int or not 0 <= label < len(CLASSES):
            kind = label if isinstance(label, int) else type(label).__name__
            raise _no_batch(where, f"label {kind} of picture {number}; expected 0 to {len(CLASSES) - 1}")
    return to_grey(pixels), np.array(labels, dtype=np.uint8)


def _describe(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {' x '.join(map(str, value.shape))}"
    return (
        "missing"
        if value is None
        else f"a {type(value).__name__}" + (f" of {len(value)}" if hasattr(value, "__len__") else "")
    )


def _no_batch(where: str, problem: str) -> DataError:
    return DataError(f"{where} is no batch of CIFAR-10: {problem}. Put the official file in its place.")


def read_batches(tree: FileTree) -> tuple[Batches, bool]:
    """Pictures and classes of every batch by name, and whether all files are the official ones byte for byte.

    Raises:
        DataError: batches are missing, cut short, or invalid.
    """
    batches, official = {}, True
    walk = tree.walk(BATCHES.__contains__)
    for name, where, file in track(walk, "reading CIFAR-10", len(BATCHES)):
        content = whole(file, where)
        official &= hashlib.md5(content, usedforsecurity=False).hexdigest() == BATCHES[name]
        batches[name] = parse_batch(content, where)
    if missing := [name for name in BATCHES if name not in batches]:
        rest = f"of the six batches, {listed(sorted(batches))} {'is' if len(batches) == 1 else 'are'} there"
        raise DataError(f"{tree.path}: {listed(missing)} missing ({rest}). Put the whole of CIFAR-10 in its place.")
    return batches, official


class LraImage(LraPictures):
    """CIFAR-10 in grey as sequences of 1,024 tokens, with a fixed division and no options."""

    version = 1
    published = "pictures: train 45,000, val 5,000, test 10,000"
    classes = CLASSES

    def sources(self) -> list[DataSource]:
        return [OFFICIAL]

    def prepare(self, folders: Folders) -> Prepared[GreyPictures]:
        tree, folder = self.read_once(folders, "lra_image", BATCHES.__contains__, _build)
        arrays = load_arrays(folder)
        n_train, n_all = int(arrays["n_train"][0]), len(arrays["answers"])
        n_val = n_train // 10
        if not n_val:
            raise DataError(f"{tree.path}: {n_train} training pictures; validation needs a tenth, so at least 10.")
        parts = np.split(np.arange(n_all), [n_train - n_val, n_train])
        rows = dict(zip(self.subsets, parts, strict=True))
        return self.prepared(arrays, rows, _about(rows, bool(arrays["official"][0])))


def _build(tree: FileTree, folder: Path) -> None:
    batches, official = read_batches(tree)
    pictures, answers = zip(*(batches[name] for name in BATCHES), strict=True)
    n_train = sum(map(len, answers[:-1]))
    save_arrays(
        folder,
        images=np.concatenate(pictures),
        answers=np.concatenate(answers),
        n_train=np.array([n_train]),
        official=np.array([official]),
    )


def _about(rows: dict[str, np.ndarray], official: bool) -> str:
    sizes = ", ".join(f"{len(part):,} {name}" for name, part in rows.items())
    if official:
        return f"CIFAR-10's official files in grey: {sizes} pictures (val: the last tenth of the training batches)"
    return f"not the official CIFAR-10 (other bytes; LRA has 45,000, 5,000 and 10,000 pictures): {sizes} pictures"
