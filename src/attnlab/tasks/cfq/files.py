"""CFQ's official files: readers of `dataset.json` and of the splits, in pieces, and the words of questions and queries.

Words are made as in github google-research/google-research, cfq/preprocess.py (also used by Csordas et al. 2021).
"""

import io
import json
import re
import string
from array import array
from collections.abc import Callable, Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast, get_args

import numpy as np

from attnlab.config.message_text import listed
from attnlab.data.files.fetch import DataError, Folders
from attnlab.data.files.folder_or_archive import FileTree, whole
from attnlab.data.files.hugging_face import HubData
from attnlab.data.files.official_files import read_table
from attnlab.data.files.progress import track

SOURCE = read_table(__file__)["CFQ"]
HUB = "google-research-datasets/cfq"
REVISION = "6627f9390245fe11ef09f349b82f6c89f577aabf"
"""commit of the hub's repository"""
# fmt: off
Split = Literal[
    "mcd1", "mcd2", "mcd3", "random", "query_complexity", "query_pattern", "question_complexity", "question_pattern",
]
# fmt: on
SPLITS = {name: name if name.startswith("mcd") else f"{name}_split" for name in get_args(Split)}
"""the name of each split in the archive and on the hub"""
EXAMPLES = 239_357
"""examples in dataset.json"""
DATA_FILE, FOLDER = "dataset.json", "splits/"
"""the file of all examples, and the folder of the splits"""
QUESTION, QUERY = "questionPatternModEntities", "sparqlPatternModEntities"
PARTS = {"train": "trainIdxs", "test": "testIdxs"}
"""the key of each subset in the file of a split"""
CHUNK = 2**22
"""characters that are read at a time; an example has about 17,000"""
REPLACE = "It is not the official file: put that in its place."
_PUNCTUATION = re.compile(f"([{re.escape(string.punctuation)}])")
_BETWEEN = re.compile(r"[\s,]*")

Pair = tuple[list[str], list[str]]
"""words of a question and of its query"""
Add = Callable[[Pair], int]
"""stores an example and returns its number in the store"""


def question_words(question: str) -> list[str]:
    """Words of a question; each punctuation mark is one."""
    return _PUNCTUATION.sub(r" \1 ", question).split()


def query_words(query: str) -> list[str]:
    """Words of a query, without the prefix `ns:` at their beginning."""
    plain = [word.removeprefix("ns:") for word in query.replace("count(*)", "count ( * )").split()]
    return ["m_" + word[2:] if word.startswith("m.") else word for word in plain]


def words_of_example(question: str, query: str) -> Pair:
    return question_words(question), query_words(query)


def read_examples(file: BufferedIOBase, where: str) -> Iterator[Pair]:
    """The examples of `dataset.json`, which has 4 GB; `where` names it in messages.

    Raises:
        DataError: no list of examples, one without question or query, or the file is cut short; with the number of the
            first wrong example, counted from 0 as in the splits.
    """
    number = -1
    for number, item in enumerate(_objects(cast(BinaryIO, file), where)):
        texts = [item.get(key) for key in (QUESTION, QUERY)] if isinstance(item, dict) else [None]
        pair = words_of_example(*texts) if all(isinstance(text, str) for text in texts) else ([], [])
        if not all(pair):
            raise bad_example(where, number, f"texts {QUESTION!r} and {QUERY!r} expected, found {str(item)[:80]}")
        yield pair
    if number < 0:
        raise DataError(f"{where}: a list without examples. {REPLACE}")


def bad_example(where: str, number: int, problem: str) -> DataError:
    return DataError(f"{where}, example {number}: {problem}. {REPLACE}")


def _objects(file: BinaryIO, where: str) -> Iterator[Any]:
    """The values of a JSON list, one by one, with few of them in memory."""
    text, decode = io.TextIOWrapper(file, "utf-8"), json.JSONDecoder().raw_decode
    buffer, place, number, ended = "[", 1, 0, False
    if not _read(text, where, 1) == "[":
        raise DataError(f"{where}: a list of examples expected. {REPLACE}")
    while True:
        place = _BETWEEN.match(buffer, place).end()  # type: ignore[union-attr]  # it matches everywhere
        if buffer[place : place + 1] == "]":
            return
        try:
            value, place = decode(buffer, place)
        except json.JSONDecodeError as error:
            # complete, if it may be: an example of more than a piece is none
            if ended or len(buffer) - place > CHUNK:
                problem = "the file ends in it" if ended else f"no JSON ({error.msg})"
                raise bad_example(where, number, problem) from None
            more = _read(text, where, CHUNK)
            buffer, place, ended = buffer[place:] + more, 0, not more
            continue
        number += 1
        yield value


def _read(text: io.TextIOWrapper, where: str, count: int) -> str:
    try:
        return text.read(count)
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: not utf-8 ({error.reason}). {REPLACE}") from None


def read_split(content: bytes, where: str) -> dict[str, np.ndarray]:
    """The numbers of the examples of each subset, in the order of the file.

    Raises:
        DataError: no such lists of numbers.
    """
    try:
        table = json.loads(content)
        numbers = {part: np.array(table[key]) for part, key in PARTS.items()}
    except (ValueError, KeyError, TypeError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise DataError(f"{where}: lists {listed(PARTS.values())} of numbers expected ({reason}). {REPLACE}") from None
    for part, rows in numbers.items():
        if rows.ndim != 1 or rows.dtype.kind not in "iu" or not len(rows) or rows.min() < 0:
            raise DataError(f"{where}: {PARTS[part]} is no list of example numbers. {REPLACE}")
    return numbers


class FileExamples:
    """All examples and splits of a folder or an archive.

    place:    names them in messages; `where` without folders of this machine, for results.
    identity: a part of cache keys.
    """

    def __init__(self, tree: FileTree, cache: Path) -> None:
        self.tree, self.place, self.where = tree, str(tree.path), tree.path.name
        self.identity = tree.identity(_wanted, cache)

    def read(self, add: Add) -> dict[str, dict[str, np.ndarray]]:
        """What `add` returns for the examples of each subset, by split; one pass over the files."""
        added, splits = array("q"), dict[str, dict[str, np.ndarray]]()
        for name, where, file in self.tree.walk(_wanted):
            if name == DATA_FILE:
                added.extend(map(add, track(read_examples(file, where), f"reading {where}", EXAMPLES)))
            else:
                splits[name.removeprefix(FOLDER).removesuffix(".json")] = read_split(whole(file, where), where)
        if not added:
            raise DataError(f"{self.tree.path}: no {DATA_FILE} in it. Put the official one there.")
        for name, parts in splits.items():
            if (last := max(int(numbers.max()) for numbers in parts.values())) >= len(added):
                problem = f"split {name} has example {last:,}, and {DATA_FILE} has {len(added):,} examples"
                raise DataError(f"{self.tree.path}: {problem}. One of them is not the official file: replace both.")
        table = np.array(added)
        return {name: {part: table[numbers] for part, numbers in parts.items()} for name, parts in splits.items()}


class HubExamples:
    """All splits on the hub, so that they have one vocabulary; it has no other examples."""

    def __init__(self, advice: str) -> None:
        self.configurations = {name: HubData(HUB, name, REVISION, advice) for name in SPLITS.values()}
        self.place = self.where = f"Hugging Face {HUB} at {REVISION[:12]}"
        self.identity = [HUB, REVISION]

    def read(self, add: Add) -> dict[str, dict[str, np.ndarray]]:
        """As `FileExamples.read`."""
        return {name: {part: self._added(data, part, add) for part in PARTS} for name, data in self._tracked()}

    def _tracked(self) -> Iterator[tuple[str, HubData]]:
        return track(self.configurations.items(), f"reading {HUB}", len(self.configurations))

    def _added(self, data: HubData, part: str, add: Add) -> np.ndarray:
        added = array("q")
        for batch in data.splits[part].iter(batch_size=1000):
            added.extend(map(add, map(words_of_example, batch["question"], batch["query"])))
        return np.array(added)


def open_examples(source: str, folders: Folders) -> FileExamples | HubExamples:
    """All examples and splits; `source` is files or hub.

    Raises:
        DataError: they are not available there.
    """
    if source == "hub":
        return HubExamples(f"Other way: task.source=files. {SOURCE.missing(folders)}")
    return FileExamples(SOURCE.open(folders), folders.cache)


def _wanted(name: str) -> bool:
    return name == DATA_FILE or (name.startswith(FOLDER) and name.endswith(".json"))
