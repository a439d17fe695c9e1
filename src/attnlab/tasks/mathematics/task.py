"""DeepMind Mathematics v1.0 (Saxton et al. 2019, arXiv 1904.01557): school questions and their answers, by characters.

One example, as in the file `interpolate/arithmetic__add_or_sub.txt` of the official generator:

    Subtract -16187 from -8928788.
    -8912601

A module is a kind of question, and a separate task. Training uses its easy, medium and hard questions together;
`test/iid` is the file `interpolate`, `test/ood` the file `extrapolate` (larger numbers or longer expressions than in
training), which 15 of the 56 modules have. As in the code of Csordas et al. 2021, repeated questions are dropped, in
the same file and in later files (in the order above), so that no test question is in the training set. There is no
validation set; `validation_share` sets some training questions aside as `val`.

A generator (tasks/mathematics/generator.py) can draw two of the modules: same sentences, same sizes, no download, and
numbers of any length in `test/ood`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Unpack

import numpy as np

from attnlab.config.message_text import hint, listed
from attnlab.config.nearest_word import nearest
from attnlab.data.examples import SequencePairs
from attnlab.data.files.cache import load_arrays, save_arrays
from attnlab.data.files.fetch import DataError, Folders
from attnlab.data.files.folder_or_archive import DataSource
from attnlab.data.files.official_files import read_table
from attnlab.data.files.progress import say, track
from attnlab.data.ragged_arrays import Ragged, offsets_of
from attnlab.tasks.base import Prepared, Task
from attnlab.tasks.mathematics import generator
from attnlab.tasks.mathematics.files import (
    CHARACTERS,
    LONGEST_QUESTION,
    Questions,
    as_bytes,
    candidate,
    encode,
    origin,
    read_module,
    without_repeats,
)
from attnlab.tasks.shortcuts import Shortcut
from attnlab.tasks.word_tasks import SequenceOptions, SequenceTask

SOURCE = read_table(__file__)["mathematics"]
PARTS = {"train": generator.DIFFICULTIES, "iid": ("interpolate",), "ood": ("extrapolate",)}
SUBSETS = {"train": "train", "iid": "test/iid", "ood": "test/ood"}
PUBLISHED_TRAIN, PUBLISHED_TEST = 666_666, 10_000
"""questions of a training file and of a test file, with repeats"""
FIRST_DIGIT, LAST_DIGIT = CHARACTERS.encode("09")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class CharacterPairs(SequencePairs):
    """Questions and answers; `lengths` are the characters of the answer, or the digits of the question.

    Args:
        arrays: the arrays that `_save` writes; may be mapped from files.
        part: train, iid or ood.
        digits: whether lengths are the question's digits.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], part: str, digits: bool) -> None:
        inputs, targets = (Ragged.from_arrays(arrays, f"{part}_{side}") for side in ("inputs", "targets"))
        super().__init__(inputs, targets, CHARACTERS.pad_id)
        if digits:
            self.lengths = digits_of(inputs)

    def identities(self) -> list[bytes]:
        # without hashes, which would take 15 s for two million questions; all splits share one vocabulary
        pairs = zip(as_bytes(self.inputs), as_bytes(self.targets), strict=True)
        return [question + answer for question, answer in pairs]


def digits_of(questions: Ragged) -> np.ndarray:
    """Number of digits [n] in each question."""
    is_digit = (questions.values >= FIRST_DIGIT) & (questions.values <= LAST_DIGIT)
    return np.add.reduceat(is_digit, questions.offsets[:-1], dtype=np.int64)


class Mathematics(SequenceTask):
    """Mathematics.

    Lengths in results are the characters of the answer; for numbers__place_value, whose answers are single digits, the
    digits of the number in the question.

    Args:
        module: `arithmetic__add_or_sub`, `numbers__place_value`, or with `source=official` any other of the archive.
        source: `generated`: drawn by the generator; `official`: read from the official archive or its folder, with a
            download (2.3 GB) if it is missing. They are different data, and one never replaces the other.
        questions_per_difficulty: questions of each of the three training files, with repeats; null = the published
            number, 666,666 (`official`: all of the file).
        test_questions: questions of each test file; null = 10,000, as published (`official`: all of the file).
        ood_entropy: with `source=generated`, decimal digits of the numbers in `test/ood`: of the number of place_value,
            of both numbers of add_or_sub together; null = as published, 12 and 16 to 20. Training has up to 10 and 16.
        data_seed: seed of the questions with `source=generated`, and of `val`.
        options: as in SequenceTask; sizes are digits of the question, of the two modules whose `test/ood` has more of
            them. Repeats are dropped before anything is set aside.
    """

    version = 1
    size_unit = "digits in the question"
    separator = ""
    inputs, outputs, longest = CHARACTERS, CHARACTERS, (LONGEST_QUESTION, generator.LONGEST_ANSWER)
    subsets = ("train", "test/iid", "test/ood")
    drawn_with: ClassVar = {"source": ("generated",)}
    published = "a module: train 1,999,998 (666,666 easy, medium, hard), test/iid 10,000, test/ood 10,000"

    def __init__(
        self,
        module: str = "arithmetic__add_or_sub",
        source: Literal["generated", "official"] = "generated",
        questions_per_difficulty: Annotated[int, "[1, inf)"] | None = None,
        test_questions: Annotated[int, "[1, inf)"] | None = None,
        ood_entropy: Annotated[float, "[1, 35]"] | None = None,
        data_seed: Annotated[int, "[0, inf)"] = 0,
        **options: Unpack[SequenceOptions],
    ) -> None:
        super().__init__(**options)
        self.module, self.source, self.data_seed = module, source, data_seed
        self.questions_per_difficulty, self.test_questions = questions_per_difficulty, test_questions
        # 20 and 20.0 are one
        self.ood_entropy = None if ood_entropy is None else float(ood_entropy)

    def sources(self) -> list[DataSource]:
        return [SOURCE] if self.source == "official" else []

    def example(self, prepared: Prepared[SequencePairs], subset: str, number: int) -> str:
        pairs = prepared.subsets[subset]
        return "\n".join("".join(CHARACTERS.decode(side[number])) for side in (pairs.inputs, pairs.targets))

    def shortcuts(self, prepared: Prepared[SequencePairs]) -> Mapping[str, Shortcut]:
        """Also the first number of a question; for numbers__place_value its most frequent digit (of ties the first)."""
        if self.module == "numbers__place_value":
            name, answer = "most frequent digit of the number", _most_frequent_digit
        else:
            name, answer = "first number of the question", _first_number
        return {**Task.shortcuts(self, prepared), name: self.answered(answer)}

    def prepare(self, folders: Folders) -> Prepared[SequencePairs]:
        arrays, origin = self._official(folders) if self.source == "official" else self._generated(folders)
        parts = [part for part in PARTS if f"{part}_read" in arrays]
        digits = self.module == "numbers__place_value"
        subsets = {SUBSETS[part]: CharacterPairs(arrays, part, digits) for part in parts}
        about = _about(origin, {part: arrays[f"{part}_read"] for part in parts}, subsets)
        divided, aside = self.with_validation(subsets, may_repeat=False)
        return self.prepared(divided, "; ".join(filter(None, [about, aside])))

    def sizes(self, pairs: SequencePairs) -> np.ndarray:
        if self.module not in generator.ENTROPY:
            raise DataError(
                f"task.validation_by=length with task.module={self.module}: digits are the size of "
                f"{listed(generator.ENTROPY)} alone; use task.validation_by=random"
            )
        return digits_of(pairs.inputs)

    def _official(self, folders: Folders) -> tuple[dict[str, np.ndarray], str]:
        """The arrays of the official files, and their origin."""
        if self.ood_entropy is not None:
            raise DataError(
                f"task.ood_entropy={self.ood_entropy:g}: expected null with task.source=official, where test/ood is "
                "the file extrapolate; task.source=generated draws questions of any entropy"
            )
        try:
            tree = SOURCE.open(folders)
        except DataError as error:
            drawn = " task.source=generated draws such questions and needs no file."
            raise DataError(f"{error}{drawn if self.module in generator.ENTROPY else ''}") from None
        most = {"questions_per_difficulty": self.questions_per_difficulty, "test_questions": self.test_questions}
        files = tree.identity(lambda name: candidate(name, self.module), folders.cache)
        options = {"module": self.module, "files": files, **most}

        def build(folder: Path) -> None:
            say(f"reading {tree.path} (minutes where it is the whole archive)")
            parts, seen = read_module(tree, self.module, *most.values()), set[bytes]()
            for part, names in PARTS.items():
                if names[0] in parts:
                    _save(folder, part, (parts.pop(name) for name in names), seen)

        arrays = load_arrays(self.cached(folders.cache, "mathematics_official", options, build))
        return arrays, origin(tree, SOURCE.archive is not None and SOURCE.archive.sha256 == files)

    def _generated(self, folders: Folders) -> tuple[dict[str, np.ndarray], str]:
        """The arrays of generated questions, and their origin.

        Training and tests have separate cache folders, so that other tests do not draw the training questions again.
        """
        if self.module not in generator.ENTROPY:
            raise DataError(
                f"task.module={self.module}: the generator has {listed(generator.ENTROPY)}"
                f"{hint(nearest(self.module, generator.ENTROPY))}; any other needs task.source=official"
            )
        n_train, n_test = self.questions_per_difficulty or PUBLISHED_TRAIN, self.test_questions or PUBLISHED_TEST
        train = {"module": self.module, "data_seed": self.data_seed, "questions": n_train}
        tests = train | {"test_questions": n_test, "ood_entropy": self.ood_entropy}

        def build_train(folder: Path) -> None:
            if tree := SOURCE.find(folders):
                say(f"note: task.source=generated does not read {tree.path}; task.source=official does")
            _save(folder, "train", (self._drawn(name, n_train) for name in PARTS["train"]), set())

        arrays = load_arrays(self.cached(folders.cache, "mathematics_train", train, build_train))

        def build_tests(folder: Path) -> None:
            seen = set(as_bytes(Ragged.from_arrays(arrays, "train_inputs")))
            for part, entropy in (("iid", None), ("ood", self.ood_entropy)):
                _save(folder, part, [self._drawn(PARTS[part][0], n_test, entropy)], seen)

        beyond = "" if self.ood_entropy is None else f" and entropy {self.ood_entropy:g} in test/ood"
        origin = f"generated by attnlab with data_seed {self.data_seed}{beyond}, not the official files"
        return arrays | load_arrays(self.cached(folders.cache, "mathematics_tests", tests, build_tests)), origin

    def _drawn(self, name: str, count: int, entropy: float | None = None) -> Questions:
        drawn = generator.draw_questions(self.module, name, count, self.data_seed, entropy)
        lines = [f"{question}\n{answer}\n" for question, answer in track(drawn, f"drawing {name}", count)]
        return encode("".join(lines).encode("ascii"), f"{self.module}, {name}", None, generator.LONGEST_ANSWER)


def _first_number(question: Sequence[str]) -> str:
    """The first number of a question; empty without one."""
    match = NUMBER.search("".join(question))
    return match[0] if match else ""


def _most_frequent_digit(question: Sequence[str]) -> str:
    digits = _first_number(question)
    return max(digits, key=digits.count, default="")


def _save(folder: Path, part: str, files: Iterable[Questions], seen: set[bytes]) -> None:
    """Writes the concatenated files of a part without repeats, and the number of questions of each file with repeats.

    Files are read one by one, so that there is no second copy of two million questions in memory.
    """
    read, kept = [], []
    for questions in files:
        read.append(len(questions))
        kept.append(without_repeats(questions, seen))
    if not any(map(len, kept)):
        raise DataError(f"{kept[0].where}: every question of it occurs in a file before it, so nothing is left")
    arrays = {f"{part}_read": np.array(read, dtype=np.int64)}
    for side in ("inputs", "targets"):
        tables = [getattr(file, side) for file in kept]
        arrays[f"{part}_{side}_values"] = np.concatenate([table.values for table in tables])
        arrays[f"{part}_{side}_offsets"] = offsets_of(np.concatenate([table.lengths for table in tables]))
    save_arrays(folder, **arrays)


def _about(origin: str, read: Mapping[str, np.ndarray], subsets: Mapping[str, SequencePairs]) -> str:
    kept = ", ".join(f"{len(pairs):,} {name}" for name, pairs in subsets.items())
    dropped = sum(int(counts.sum()) for counts in read.values()) - sum(map(len, subsets.values()))
    text = f"{origin}: {kept} after {dropped:,} repeated questions were dropped"
    smaller = []
    for part, counts in read.items():
        published = PUBLISHED_TRAIN if part == "train" else PUBLISHED_TEST
        if counts.min() < published:
            where = "a difficulty" if part == "train" else f"in {SUBSETS[part]}"
            smaller.append(f"{counts.min():,} of the published {published:,} questions {where}")
    return text + (f"; partial: {', '.join(smaller)}" if smaller else "")
