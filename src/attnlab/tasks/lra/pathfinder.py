"""Long Range Arena, pathfinder (Tay et al. 2021, arXiv 2011.04006; pictures of Linsley et al. 2018, arXiv 1805.08315):
are the two dots in a picture of 32 x 32 grey pixels joined by a dashed curve? Read pixel by pixel, two classes.

One example, a line of `curv_baseline/metadata/0.npy` in the LRA release, which is text in spite of its name:

    imgs/0 sample_0.png 0 0 1.0 6 2 2 0.5 1 1
    input: the 1,024 grey values of that picture, row by row
    target: 0 (not joined)

The picture is `curv_baseline/imgs/0/sample_0.png`; the label is the fourth field: 0 not joined, 1 joined. The other
fields are the picture's number and parameters of the drawing; 6 is the length of a curve in dashes.

The release has 200,000 pictures of each difficulty and no division. Here `data_seed` draws 80 %, 10 % and 10 %;
Skyformer shuffles without a seed, LRA divides in the order of tensorflow_datasets. One picture of the release is an
empty file, which is skipped. LRA's code masks grey value 0 as padding; here black is a colour.
"""

import io
import re
from collections.abc import Iterator
from io import BufferedIOBase
from typing import Annotated, Literal

import numpy as np

from attnlab.config.message_text import listed
from attnlab.data.files.cache import load_arrays, save_arrays
from attnlab.data.files.fetch import DataError, Folders
from attnlab.data.files.folder_or_archive import DataSource, FileTree, bad_line, natural, text_lines
from attnlab.data.files.progress import say, track
from attnlab.data.picture_sequences import SIDE, GreyPictures
from attnlab.tasks.base import Prepared
from attnlab.tasks.lra.common import RELEASE, LraPictures, announce, release_source

N_PICTURES = 200_000
"""pictures of each difficulty in the release"""
MOST_EMPTY = 10
"""limit for skipped empty pictures; with more, the copy is incomplete"""
LARGEST_PICTURE = 2**16
"""bytes: limit for a PNG file; the raw pixels have 1,024"""


def parse_labels(file: BufferedIOBase, where: str) -> Iterator[tuple[str, int, int]]:
    """Picture (`imgs/0/sample_0.png`), label, and line number of each line of a metadata file.

    Raises:
        DataError: a line cannot be parsed; names `where` and its number.
    """
    for number, line in text_lines(file, where):
        fields = line.split()
        if not fields:
            continue
        if len(fields) < 4 or not re.fullmatch(r"imgs/\d+", fields[0]) or not fields[1].endswith(".png"):
            raise bad_line(where, number, f"'imgs/<n> <name>.png <n> <0 or 1> ...' expected, found {line[:80]!r}")
        if fields[3] not in ("0", "1"):
            raise bad_line(where, number, f"label {fields[3]!r}; expected 0 or 1")
        yield f"{fields[0]}/{fields[1]}", int(fields[3]), number


def read_picture(content: bytes, where: str) -> bytes:
    """The 1,024 grey values of a PNG file, row by row.

    Raises:
        DataError: the file is not a PNG, cut short, or of another size.
    """
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content), formats=("PNG",)) as picture:
            width, height = picture.size
            # larger pictures are not decompressed
            pixels = picture.convert("L").tobytes() if (width, height) == (SIDE, SIDE) else b""
    except Exception as error:
        # damaged files raise many kinds of exceptions, SyntaxError among them
        raise DataError(f"{where} is no picture, or cut short ({error}). Put the official one in its place.") from error
    if not pixels:
        size = f"{width} x {height} pixels where {SIDE} x {SIDE} are expected"
        raise DataError(f"{where} has {size}. Put the official one in its place.")
    return pixels


def name_patterns(difficulty: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Patterns of names in the release: of lists of pictures, and of pictures (the group is the name in the lists)."""
    above = rf"(?:(?:(?:.*/)?pathfinder32/)?{difficulty}/)?"
    return re.compile(above + r"metadata/\d+\.npy"), re.compile(above + r"(imgs/\d+/[^/]+\.png)")


class Release:
    """Reader of the pictures of a difficulty in one pass over the release: metadata and pictures in any order.

    Args:
        tree: the release, `pathfinder32`, or the folder of the difficulty.
    """

    def __init__(self, tree: FileTree, difficulty: str) -> None:
        self.tree, self.difficulty = tree, difficulty
        self._list, self._picture = name_patterns(difficulty)
        self.labels: dict[str, int] = {}
        self.pixels: dict[str, bytes] = {}
        self.empty: set[str] = set()

    def read(self) -> dict[str, np.ndarray]:
        """images [n, 32, 32] and answers [n], both uint8, in the order of names, and n_empty [1].

        Raises:
            DataError: no pictures of this difficulty; a line that cannot be parsed; unlabelled, missing or unreadable
                pictures, or more than `MOST_EMPTY` empty ones.
        """
        announce(self.tree)
        walk = self.tree.walk(lambda name: bool(self._list.fullmatch(name) or self._picture.fullmatch(name)))
        for name, where, file in track(walk, f"reading {self.difficulty}", N_PICTURES):
            picture = self._picture.fullmatch(name)
            if picture is None:
                self._take_labels(file, where)
            elif content := file.read(LARGEST_PICTURE):
                self.pixels[picture[1]] = read_picture(content, where)
            else:
                self.empty.add(picture[1])
        self._require_whole()
        names = sorted(self.labels.keys() - self.empty, key=natural)
        if self.empty:
            say(f"{self.tree.path}: empty pictures are left out: {listed(sorted(self.empty))}")
        images = np.frombuffer(b"".join(map(self.pixels.__getitem__, names)), dtype=np.uint8)
        answers = np.array([self.labels[name] for name in names], dtype=np.uint8)
        return {
            "images": images.reshape(-1, SIDE, SIDE),
            "answers": answers,
            "n_empty": np.array([len(self.empty)]),
        }

    def _take_labels(self, file: BufferedIOBase, where: str) -> None:
        for picture, label, number in parse_labels(file, where):
            if self.labels.setdefault(picture, label) != label:
                raise bad_line(where, number, f"{picture} is labelled {label} here and {1 - label} before")

    def _require_whole(self) -> None:
        if not self.labels:
            problem = f"no metadata/<n>.npy of {self.difficulty} (pathfinder32) with pictures in it"
            raise self._incomplete(f"{problem}, but {len(self.pixels):,} pictures")
        if missing := sorted(self.labels.keys() - self.pixels.keys() - self.empty, key=natural):
            raise self._incomplete(f"{len(missing):,} of {len(self.labels):,} pictures are missing, first {missing[0]}")
        if len(self.empty) > MOST_EMPTY:
            raise self._incomplete(f"{len(self.empty):,} pictures are empty files")

    def _incomplete(self, problem: str) -> DataError:
        return DataError(f"{self.tree.path} is not whole: {problem}. Put a whole copy in its place, from {RELEASE}).")


class LraPathfinder(LraPictures):
    """Pathfinder at 32 x 32 pixels as sequences of 1,024 tokens.

    Args:
        difficulty: `curv_baseline` (short curves), `curv_contour_length_9`, or `curv_contour_length_14` (the longest
            curves, used in LRA's results).
        data_seed: seed of the 80/10/10 division.
    """

    version = 1
    classes = ("not joined", "joined")
    published = "pictures: train 160,000, val 20,000, test 20,000"

    def __init__(
        self,
        difficulty: Literal[
            "curv_baseline", "curv_contour_length_9", "curv_contour_length_14"
        ] = "curv_contour_length_14",
        data_seed: Annotated[int, "[0, inf)"] = 0,
    ) -> None:
        self.difficulty, self.data_seed = difficulty, data_seed

    def sources(self) -> list[DataSource]:
        folder = f"pathfinder32/{self.difficulty}"
        return [release_source(f"{folder} of the Long Range Arena release", folder, f"pathfinder/{folder}")]

    def prepare(self, folders: Folders) -> Prepared[GreyPictures]:
        # of an unpacked copy, the status of 200,000 files is asked for at every start (4 s); of the archive that of one
        patterns = name_patterns(self.difficulty)
        tree, folder = self.read_once(
            folders,
            "lra_pathfinder",
            lambda name: any(pattern.fullmatch(name) for pattern in patterns),
            lambda tree, path: save_arrays(path, **Release(tree, self.difficulty).read()),
            difficulty=self.difficulty,
        )
        arrays = load_arrays(folder)
        rows = self._divide(len(arrays["answers"]))
        if not len(rows["val"]):
            raise DataError(f"{tree.path}: {len(arrays['answers'])} pictures; validation and test need a tenth each.")
        return self.prepared(arrays, rows, _about(self.difficulty, rows, int(arrays["n_empty"][0])))

    def _divide(self, n: int) -> dict[str, np.ndarray]:
        order, tenth = np.random.default_rng(self.data_seed).permutation(n), n // 10
        parts = {"train": order[2 * tenth :], "val": order[:tenth], "test": order[tenth : 2 * tenth]}
        return {name: np.sort(rows) for name, rows in parts.items()}


def _about(difficulty: str, rows: dict[str, np.ndarray], n_empty: int) -> str:
    sizes = ", ".join(f"{len(part):,} {name}" for name, part in rows.items())
    n = sum(map(len, rows.values())) + n_empty
    kind = f"pathfinder32/{difficulty}"
    whose = kind if n == N_PICTURES else f"{kind}, not the whole release ({n:,} of {N_PICTURES:,} pictures)"
    empty = f"; {n_empty} empty left out" if n_empty else ""
    return f"{whose}: {sizes} pictures{empty}"
