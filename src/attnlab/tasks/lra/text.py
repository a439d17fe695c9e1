"""Text of the Long Range Arena (Tay et al. 2021, arXiv 2011.04006): is a film review good? Read byte by byte.

The data is the Large Movie Review Dataset v1.0 (Maas et al. 2011, `aclImdb`) with one file per review; the folder is
the label, and the rating (1 to 4 or 7 to 10) follows the number. One example, `train/neg/10962_3.txt`:

    This movie is terrible but it has some good effects.  ->  negative

A byte is its own token id (0 is padding). A review is cut to `max_length` bytes, 4,000 as published, which cuts 3 %.

**There is no official validation set: LRA's and Skyformer's code validate on the test reviews.** Here a tenth of the
training reviews is held out (`validation=held_out`), and the test reviews are read once. `validation=test` is the
published way, and its results say so. Some test texts are in training too: 48 of the 10,000 (of 25,000) that were at
hand.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np

from attnlab.data.batch import LabelledBatch
from attnlab.data.examples import LabelledSequences
from attnlab.data.files.fetch import DataError, Folders
from attnlab.data.files.folder_or_archive import DataSource, FileTree, whole
from attnlab.data.files.official_files import read_table
from attnlab.data.files.progress import track
from attnlab.data.user_inputs import TEXT, encoded, labelled_batch
from attnlab.tasks.base import Prepared
from attnlab.tasks.lra import common
from attnlab.tasks.lra.common import LraTask

OFFICIAL = read_table(__file__)["text"]
LABELS, NAMES = ("neg", "pos"), ("negative", "positive")
HELD_OUT = 10
"""one in this many training reviews is used for validation"""

Reviews = dict[str, list[tuple[bytes, int]]]


def is_review(name: str) -> bool:
    """Whether a name is in a folder of labelled reviews; hidden files of the system do not count."""
    return re.fullmatch(r"(train|test)/(neg|pos)/[^/.][^/]*", name) is not None


def read_reviews(tree: FileTree) -> Reviews:
    """Texts and labels of `train` and `test`, sorted by number and label.

    Raises:
        DataError: a file is not a review or empty, or a subset has no review of a label.
    """
    reviews: dict[str, dict[tuple[int, int], bytes]] = {"train": {}, "test": {}}
    for name, where, file in track(tree.walk(is_review), f"reading {tree.path.name}", sum(OFFICIAL.sizes.values())):
        subset, label, last = name.split("/")
        match = re.fullmatch(r"(\d+)_(\d+)\.txt", last)
        if match is None or not _fits(label, int(match[2])):
            raise DataError(f"{where}: expected <number>_<rating>.txt, ratings 1 to 4 in neg and 7 to 10 in pos.")
        text = whole(file, where)
        if not text:
            raise DataError(f"{where} is empty. Put the official file in its place.")
        reviews[subset][int(match[1]), LABELS.index(label)] = text
    for subset, texts in reviews.items():
        for number, label in enumerate(LABELS):
            if not any(key[1] == number for key in texts):
                raise DataError(f"{tree.path} has no reviews in {subset}/{label}. Put the whole data set in its place.")
    return {subset: [(texts[key], key[1]) for key in sorted(texts)] for subset, texts in reviews.items()}


def _fits(label: str, rating: int) -> bool:
    return 1 <= rating <= 4 if label == "neg" else 7 <= rating <= 10


def held_out(reviews: list[tuple[bytes, int]], data_seed: int) -> np.ndarray:
    """Mask [n] of the reviews for validation: a tenth of the distinct texts, so that equal texts stay together."""
    numbers: dict[bytes, int] = {}
    groups = np.array([numbers.setdefault(text, len(numbers)) for text, _ in reviews])
    chosen = np.random.default_rng(data_seed).permutation(len(numbers))[: max(1, len(numbers) // HELD_OUT)]
    return np.isin(groups, chosen)


class LraText(LraTask):
    """Text classification of the Long Range Arena.

    Args:
        validation: `held_out`: `val` is a tenth of the training reviews, not used in training; `test`: `val` is the
            test set, as published, and all training reviews are used in training.
        max_length: maximum number of bytes of a review.
        data_seed: seed of the held-out reviews.
    """

    version = 1
    drawn_with: ClassVar = {"validation": ("held_out",)}
    published = "train 25,000, test 25,000 (val: the test set); by default val is a tenth of train"

    def __init__(
        self,
        validation: Literal["held_out", "test"] = "held_out",
        max_length: Annotated[int, "[1, inf)"] = 4000,
        data_seed: Annotated[int, "[0, inf)"] = 0,
    ) -> None:
        self.validation, self.max_length, self.data_seed = validation, max_length, data_seed

    def sources(self) -> list[DataSource]:
        return [OFFICIAL]

    def example(self, prepared: Prepared[LabelledSequences], subset: str, number: int) -> str:
        part = prepared.subsets[subset]
        text = part.inputs[number].tobytes().decode("utf-8", errors="replace")
        return f"{common.shortened(text)}  ->  {NAMES[part.answers[number]]}"

    def encode_inputs(self, prepared: Prepared, inputs: Sequence[str]) -> LabelledBatch:
        """Inputs are texts."""
        return labelled_batch(encoded(inputs, TEXT, lambda text: common.text_ids(text, self.max_length)), 0)

    def decode_outputs(self, prepared: Prepared, outputs: Sequence[int]) -> list[str]:
        return [NAMES[output] for output in outputs]

    def prepare(self, folders: Folders) -> Prepared[LabelledSequences]:
        options: dict[str, object] = {"validation": self.validation, "max_length": self.max_length}
        names: Sequence[str] = ("train", "test")
        if self.validation == "held_out":
            options["data_seed"], names = self.data_seed, self.subsets
        _, folder = self.read_once(folders, "lra_text", is_review, self._build, **options)
        subsets = common.read_subsets(LabelledSequences, folder, names, 0, common.TEXT_BINS)
        subsets = {name: subsets.get(name, subsets["test"]) for name in self.subsets}
        spec = self.task_spec(input_vocabulary=256, n_classes=2, max_input_length=self.max_length)
        return Prepared(spec=spec, subsets=subsets, about=self._about({name: len(s) for name, s in subsets.items()}))

    def _about(self, sizes: dict[str, int]) -> str:
        if self.validation == "held_out":
            read = {"train": sizes["train"] + sizes["val"], "test": sizes["test"]}
            how = f"val is {sizes['val']:,} of the training reviews, held out with data_seed {self.data_seed}"
        else:
            read = {"train": sizes["train"], "test": sizes["test"]}
            how = "val is the test set, as published: what is selected by it was selected on the test reviews"
        return f"IMDB reviews, {common.counted(read, OFFICIAL.sizes, 'partial: ')}; {how}"

    def _build(self, tree: FileTree, folder: Path) -> None:
        parts = read_reviews(tree)
        if self.validation == "held_out":
            train, validates = parts["train"], held_out(parts["train"], self.data_seed)
            for subset, chosen in (("train", ~validates), ("val", validates)):
                parts[subset] = [train[number] for number in np.flatnonzero(chosen)]
        for subset, reviews in parts.items():
            rows = (((common.byte_tokens(text, self.max_length),), label) for text, label in reviews)
            common.write_subset(folder, subset, rows)
