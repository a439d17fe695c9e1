"""PCFG SET's official files: their repositories, known checksums, and the parser of their lines."""

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from attnlab.data.files.fetch import DataError, OfficialFile
from attnlab.data.files.file_tree import DataSource, bad_line, text_lines
from attnlab.data.files.progress import track
from attnlab.data.files.read_official import FileContent
from attnlab.tasks.pcfg.interpreter import MAX_INPUT, MAX_OUTPUT, WORDS, exceptions, interpret

RAW = "https://raw.githubusercontent.com/"


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A public repository that holds PCFG SET files.

    owner, name, commit: owner, name and commit on GitHub.
    folder: the folder of all paths in this module.
    """

    owner: str
    name: str
    commit: str
    folder: str

    @property
    def paths(self) -> tuple[str, ...]:
        """Possible locations below the data folder: a clone, GitHub's archive of it, or its data folder."""
        tops = [self.name, f"{self.name}-master", f"{self.name}.tar.gz", f"{self.name}-master.zip"]
        return (*tops, *(f"pcfg/{top}" for top in tops), self.folder.rpartition("/")[2], "pcfg")

    def file(self, path: str) -> OfficialFile:
        """The official file at a path below `folder`."""
        size, sha256 = KNOWN.get(path, (None, None))
        below = f"{self.folder}/{path}"
        url = f"{RAW}{self.owner}/{self.name}/{self.commit}/{below}"
        return OfficialFile(path=f"{self.name}/{below}", url=url, size=size, sha256=sha256)


PAPER = Repository(
    owner="i-machine-think",
    name="am-i-compositional",
    commit="4f75bdd78889150dd78e90bbb7ddec840204c159",
    folder="data/pcfgset",
)
GENERATOR = Repository(
    owner="MathijsMul",
    name="pcfg-set",
    commit="99098bd97150671003de60526d884d7c24949944",
    folder="data/pcfg_set",
)

EQUALLY = "substitutivity/equally_distributed"
RATIO = "overgeneralisation/test_pcfg_ratio=0.001"
KNOWN = {  # path: bytes, sha256; the checksums of other files are not published
    "pcfgset/test.src": (863344, "65af9357dc169a22629456be7cf43e97e275e076db10d72202d5389be7d8c0b2"),
    "pcfgset/test.tgt": (321669, "7d23524995eb28a4726b3f1ffc11daec8f13692f7f804f4be20ca1a25c941517"),
    "systematicity/test.src": (1235202, "9c47ccf869899e65c2c2cf530403c8fefdcb5de57787c9ff029dc7d9b8018941"),
    "systematicity/test.tgt": (474479, "2896474cdeb151929bd85ed10aeeca37866e11dafa00f62e1660804f0dfc5a8a"),
    "productivity/test.src": (1930144, "ba03bc5c468e955d537c06ca02c900c431a16f37b8b3f02e5eaa8a93434a3f73"),
    "productivity/test.tgt": (620414, "55704b1e887ffeffb104fc1ba4bc44dd6b0e95e34a355bd07d86881fd226a254"),
    f"{EQUALLY}/test.src": (1073727, "21a135fb2e7c828bc264d467fd2353a51a411bffa20416c381290bce500e7899"),
    f"{EQUALLY}/test.tgt": (392456, "71c5545a9fed0792389b18d470d78c310d578cdf4fa09913f481983f5dbdd29d"),
    f"{EQUALLY}/test_twin.src": (1139517, "b6111cb54df3f9c44bca73ee97a89006e8dc1fae91803017203ce5623ffe1e40"),
    f"{EQUALLY}/test_twin.tgt": (392456, "71c5545a9fed0792389b18d470d78c310d578cdf4fa09913f481983f5dbdd29d"),
    f"{RATIO}_exception.src": (8279, "ec5f4bdf1fb4e76b24004c1e27fdc453fdd2576f1fcaab28c28dc17bb40bfc07"),
    f"{RATIO}_exception.tgt": (3356, "4b2dbe250003d0133c86209319b9a22c978a8b94cba59feda3d7e5ebb8822cd4"),
    f"{RATIO}_original.src": (8279, "ec5f4bdf1fb4e76b24004c1e27fdc453fdd2576f1fcaab28c28dc17bb40bfc07"),
    f"{RATIO}_original.tgt": (3496, "75536c3940f51457068c0ccbf66ab8e38b1f39325fff07aec3e963d4f6056c49"),
    "10K/random_split/train.src": (680037, "8497b122bb871ac06d8cfae1b3ef65399168a7466c87769de8642710d5722677"),
    "10K/random_split/train.tgt": (238846, "aab46652bfe56b48884ea5a5f038ff605c207027b334be04c9eeb51de124d261"),
    "10K/random_split/test.src": (82248, "1483c649b803f9c6ba3ae7ce61fb0ad7d263df370ec225d2cbe02f84c2bb022d"),
    "10K/random_split/test.tgt": (28527, "7f560e533853e7fceebc8ae983ae3e67fc9e7128538c2fd6da377d4db4e32d03"),
}
TRAIN_ROWS = {
    "pcfgset/train": 82622,
    "systematicity/train": 82168,
    "productivity/train": 81010,
    "substitutivity/primitive/train": 82953,
    f"{EQUALLY}/train": 82621,
}
"""rows of the official training files, whose checksums are not published"""


def source(repository: Repository, what: str) -> DataSource:
    """Location of the files, for messages."""
    address = f"https://github.com/{repository.owner}/{repository.name}"
    offer = f"a clone of {address}, 3 to 13 MB a split (its files are downloaded when they are missing)"
    return DataSource(what=what, paths=repository.paths, offers=(offer,))


Readings = Callable[[Sequence[str]], Iterator[list[str]]]
"""a function from an input to its possible outputs"""


def regular(words: Sequence[str]) -> Iterator[list[str]]:
    """The output by the rules."""
    yield interpret(words)


def exceptional(words: Sequence[str]) -> Iterator[list[str]]:
    """The outputs with exceptional pairs of functions replaced; none for an input without such a pair."""
    interpret(words)
    for changed in exceptions(words):
        yield interpret(changed)


def regular_or_exceptional(words: Sequence[str]) -> Iterator[list[str]]:
    """The outputs in training files of the overgeneralisation test: by the rules, or as exceptions."""
    yield from regular(words)
    yield from exceptional(words)


def read_pairs(
    inputs: FileContent, targets: FileContent, readings: Readings, what: str
) -> Iterator[tuple[list[int], list[int]]]:
    """The pairs of two line-aligned files as ids of `WORDS`, without framing; every target is checked.

    Raises:
        DataError: the first line with an invalid expression, an unknown word, more words than any official line, or a
            wrong target; or the files are empty or of unequal length.
    """
    columns = [list(text_lines(io.BytesIO(content.data), content.where)) for content in (inputs, targets)]
    if len(columns[0]) != len(columns[1]):
        counts = " and ".join(
            f"{content.where} has {len(lines)} lines" for content, lines in zip((inputs, targets), columns, strict=True)
        )
        raise DataError(f"{counts}: line n of one belongs to line n of the other. One is cut short; replace both.")
    if not columns[0]:
        raise DataError(f"{inputs.where} is empty: no pair can be read from it")
    for (number, line), (_, answer) in track(zip(*columns, strict=True), f"checking {what}", len(columns[0])):
        words, symbols = line.split(" "), answer.split(" ")
        where = inputs.where
        try:
            pair_input, right = _encode(words, MAX_INPUT), any(symbols == reading for reading in readings(words))
            where = targets.where
            pair_target = _encode(symbols, MAX_OUTPUT)
            if not right:
                raise ValueError(_wrong(words, symbols, readings))
        except (ValueError, DataError) as error:
            raise bad_line(where, number, str(error)) from None
        yield pair_input, pair_target


def _encode(words: Sequence[str], longest: int) -> list[int]:
    if len(words) > longest:
        raise ValueError(f"{len(words)} words, more than the {longest} of the longest official line")
    return WORDS.encode(words)


def _wrong(words: Sequence[str], symbols: Sequence[str], readings: Readings) -> str:
    expected = list(islice(readings(words), 3))
    if not expected:
        return f"{_cut(words)} holds no pair of functions that have an exception"
    shared = range(min(len(symbols), len(expected[0])))
    first = next((i for i in shared if symbols[i] != expected[0][i]), len(shared)) + 1
    meant = " or ".join(map(_cut, expected))
    return f"{_cut(words)} means {meant}, found {_cut(symbols)} (wrong from symbol {first})"


def _cut(words: Sequence[str]) -> str:
    text = " ".join(words)
    return repr(text if len(text) <= 80 else text[:77] + "...")
