"""Reader of the files of DeepMind Mathematics v1.0, in which each question and its answer are two lines.

    train-easy/<module>.txt, train-medium/<module>.txt, train-hard/<module>.txt, interpolate/<module>.txt
    extrapolate/<module>_big.txt (or _longer, _more, _more_samples, or the same name), for 15 of the 56 modules

Files are decoded whole, not line by line: two million questions take a few seconds.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from attnlab.config.message_text import hint, listed
from attnlab.config.nearest_word import nearest
from attnlab.data.files.fetch import DataError
from attnlab.data.files.folder_or_archive import FileTree, bad_line, whole
from attnlab.data.files.progress import track
from attnlab.data.ragged_arrays import Ragged, offsets_of
from attnlab.data.vocabulary import Vocabulary
from attnlab.tasks.mathematics.generator import DIFFICULTIES

CHARACTERS = Vocabulary([chr(code) for code in range(32, 127)])
"""printable ASCII: the same vocabulary for all modules and splits, so that a model can be tested on any of them"""
LONGEST_QUESTION, LONGEST_ANSWER = 160, 30
"""characters: limits of the official files"""
LINE_END = 10
OUTSIDE = 255

NUMBERS = np.full(256, OUTSIDE, dtype=np.uint8)
NUMBERS[32:127] = CHARACTERS.encode(map(chr, range(32, 127)))
# a line end becomes the end token, which frames the lines
NUMBERS[LINE_END] = CHARACTERS.end_id

MODULE_FILE = re.compile(rf"({'|'.join(DIFFICULTIES)}|interpolate|extrapolate)/(\w+)\.txt")


class Questions(NamedTuple):
    """The questions of a file (start + characters + end), their answers (characters + end), and its location."""

    inputs: Ragged
    targets: Ragged
    where: str

    def __len__(self) -> int:
        return len(self.inputs)


def encode(text: bytes, where: str, most: int | None = None, longest_answer: int = LONGEST_ANSWER) -> Questions:
    """The questions of a file.

    Args:
        where: names the file in messages.
        most: maximum number of questions, from the beginning.
        longest_answer: limit in characters.

    Raises:
        DataError: the first line that is empty, too long, cut short or has a character outside the vocabulary, or the
            last line if it is a question without an answer.
    """
    codes = np.frombuffer(text.replace(b"\r\n", b"\n"), dtype=np.uint8)
    ends = np.flatnonzero(codes == LINE_END) + 1
    if len(codes) and (not len(ends) or ends[-1] != len(codes)):
        raise bad_line(where, len(ends) + 1, "the file ends inside this line: its line end is missing")
    if most is not None:
        ends = ends[: 2 * most]
    if not len(ends):
        raise DataError(f"{where} is empty: expected a question and its answer on lines of their own")
    values, lengths = NUMBERS[codes[: ends[-1]]], np.diff(ends, prepend=0)
    _require_lines(codes, values, ends, lengths, where, longest_answer)
    of_question = np.repeat(np.arange(len(ends)) % 2 == 0, lengths)
    questions, offsets = values[of_question], offsets_of(lengths[::2])
    inputs = Ragged(np.insert(questions, offsets[:-1], CHARACTERS.start_id), offsets_of(lengths[::2] + 1))
    return Questions(inputs, Ragged(values[~of_question], offsets_of(lengths[1::2])), where)


def _require_lines(
    codes: np.ndarray, values: np.ndarray, ends: np.ndarray, lengths: np.ndarray, where: str, longest_answer: int
) -> None:
    outside = np.flatnonzero(values == OUTSIDE)
    if len(outside):
        number = int(np.searchsorted(ends, outside[0], side="right")) + 1
        character = bytes([codes[outside[0]]])
        raise bad_line(where, number, f"{character!r} is not printable ASCII, so it is outside the vocabulary")
    limits = np.resize([LONGEST_QUESTION, longest_answer], len(ends))
    wrong = np.flatnonzero((lengths == 1) | (lengths - 1 > limits))
    if len(wrong):
        kind = "answer" if wrong[0] % 2 else "question"
        length, limit = int(lengths[wrong[0]]) - 1, limits[wrong[0]]
        problem = f"an {kind}" if kind == "answer" else f"a {kind}"
        problem += f" of {length} characters, above {limit}" if length else " expected, found an empty line"
        raise bad_line(where, int(wrong[0]) + 1, problem)
    if len(ends) % 2:
        raise bad_line(where, len(ends), "a question without the line of its answer")


def without_repeats(questions: Questions, seen: set[bytes]) -> Questions:
    """The questions without those in `seen` and without repeats; the others are added to `seen`."""
    fresh = np.ones(len(questions), dtype=bool)
    for number, question in enumerate(as_bytes(questions.inputs)):
        if question in seen:
            fresh[number] = False
        else:
            seen.add(question)
    return Questions(_picked(questions.inputs, fresh), _picked(questions.targets, fresh), questions.where)


def as_bytes(sequences: Ragged) -> Iterator[bytes]:
    """Each sequence as bytes."""
    content = sequences.values.tobytes()
    return (content[start:end] for start, end in pairwise(sequences.offsets.tolist()))


def _picked(ragged: Ragged, keep: np.ndarray) -> Ragged:
    return Ragged(ragged.values[np.repeat(keep, ragged.lengths)], offsets_of(ragged.lengths[keep]))


def candidate(name: str, module: str) -> bool:
    """Whether a file may belong to a module; for extrapolate files, all names are needed to decide."""
    match = MODULE_FILE.fullmatch(name)
    if match is None:
        return False
    part, module_of_file = match.groups()
    return module_of_file.startswith(module) if part == "extrapolate" else module_of_file == module


def read_module(tree: FileTree, module: str, most: int | None, most_test: int | None) -> dict[str, Questions]:
    """The files of a module by part: the three difficulties, `interpolate`, and `extrapolate` if it exists.

    Args:
        most, most_test: maximum number of questions of each training and each test file; None = all.

    Raises:
        DataError: an unknown module, with the nearest name; a missing file; a line that cannot be parsed.
    """
    names: set[tuple[str, str]] = set()

    def wanted(name: str) -> bool:
        if match := MODULE_FILE.fullmatch(name):
            names.add((match[1], match[2]))
        return candidate(name, module)

    contents = {
        name.removesuffix(".txt"): encode(whole(file, where), where, most if name.startswith("train") else most_test)
        for name, where, file in track(tree.walk(wanted), f"reading {tree.path.name}", None)
    }
    _require_module(names, module, tree)
    parts = {part: contents[f"{part}/{module}"] for part in (*DIFFICULTIES, "interpolate")}
    beyond = extrapolated(module, names)
    return parts | ({"extrapolate": contents[f"extrapolate/{beyond}"]} if beyond else {})


def extrapolated(module: str, names: Iterable[tuple[str, str]]) -> str | None:
    """The extrapolate file of a module, whose name begins with no longer module name.

    `arithmetic__mul_div_multiple_longer` begins with `arithmetic__mul`, but belongs to `arithmetic__mul_div_multiple`.

    Args:
        names: part and name of every file.
    """
    modules = {name for part, name in names if part != "extrapolate"}

    def owner(name: str) -> str:
        return max((other for other in modules if name == other or name.startswith(f"{other}_")), key=len, default="")

    return min((name for part, name in names if part == "extrapolate" and owner(name) == module), key=len, default=None)


def _require_module(names: set[tuple[str, str]], module: str, tree: FileTree) -> None:
    modules = sorted({name for part, name in names if part != "extrapolate"})
    if not modules:
        raise DataError(f"{tree.path} has none of the official files (train-easy/<module>.txt and so on)")
    if module not in modules:
        near = hint(nearest(module, modules))
        raise DataError(f"task.module={module}: no such module in {tree.path}{near}; there: {listed(modules)}")
    for part in (*DIFFICULTIES, "interpolate"):
        if (part, module) not in names:
            raise DataError(f"{tree.path}: {part}/{module}.txt is missing. Put the official file there.")


def origin(tree: FileTree, official: bool) -> str:
    """Name of the files, with a note if they are not, or not known to be, the official ones.

    Args:
        official: whether they are the official archive, byte for byte.
    """
    if not tree.path.is_file():
        return f"files in {tree.path.name} (unpacked: not known to be the official ones)"
    return f"files in {tree.path.name}" + ("" if official else " (not the official one)")
