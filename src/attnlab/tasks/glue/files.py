"""Readers of the data sets of GLUE: from files, and from the Hugging Face hub.

Fields of a file are separated by tabs; quotes are part of the text.
"""

import math
from collections.abc import Iterator, Mapping
from io import BufferedIOBase
from pathlib import Path

from attnlab.config.message_text import hint, listed
from attnlab.config.nearest_word import nearest
from attnlab.data.files.fetch import DataError, Folders
from attnlab.data.files.folder_or_archive import FileTree, Folder, bad_line, text_lines
from attnlab.data.files.hugging_face import HubData
from attnlab.data.files.progress import say, track
from attnlab.tasks.glue.data_sets import DATA_SETS, HIGHEST_SCORE, DataSet

HUB = "nyu-mll/glue"
REVISION = "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c"
"""commit of the hub's repository"""
MOST_BROKEN = 0.01
"""limit for the share of broken lines in a file, where the official file has such lines"""

Row = tuple[tuple[str, ...], float]
"""one or two texts, and the number of the class or the score"""


def read_rows(file: BufferedIOBase, where: str, data_set: DataSet) -> Iterator[Row]:
    """The rows of a file; `where` names it in messages.

    Raises:
        DataError: a line that cannot be parsed, a header without the columns, or no rows.
    """
    # MRPC's original files begin with a byte-order mark
    lines = text_lines(file, where, "utf-8-sig")
    columns = list(data_set.columns) or _header(next(lines, (1, ""))[1], where, data_set)
    rows, broken = 0, []
    for number, line in lines:
        fields = line.split("\t")
        if len(fields) == len(columns):
            rows += 1
            yield _row(dict(zip(columns, fields, strict=True)), where, number, data_set)
        elif data_set.broken:
            broken.append(number)
        else:
            raise bad_line(where, number, f"{len(fields)} columns where {len(columns)} are expected")
    if len(broken) > MOST_BROKEN * (rows + len(broken)):
        raise bad_line(where, broken[0], f"other than {len(columns)} columns, as on {len(broken)} lines in all")
    if not rows:
        raise DataError(f"{where}: no rows. Put the official file in its place.")
    if broken:
        which = listed(map(str, broken), 5)
        say(f"{where}: {len(broken)} lines with other than {len(columns)} columns are left out: {which}")


def _header(line: str, where: str, data_set: DataSet) -> list[str]:
    columns = line.split("\t")
    lacking = [name for name in (*data_set.texts, data_set.label) if name not in columns]
    if lacking:
        raise bad_line(where, 1, f"a header with {listed(map(repr, lacking))} expected, found {line[:80]!r}")
    return columns


def _row(fields: Mapping[str, str], where: str, number: int, data_set: DataSet) -> Row:
    try:
        return tuple(fields[name] for name in data_set.texts), parse_label(fields[data_set.label], data_set)
    except ValueError as error:
        raise bad_line(where, number, str(error)) from None


def parse_label(text: str, data_set: DataSet) -> float:
    """The number of the class, or the score, of a label.

    Raises:
        ValueError: the label is not valid in this data set.
    """
    if data_set.classes:
        labels = data_set.classes if data_set.spelled else tuple(map(str, range(len(data_set.classes))))
        if text in labels:
            return labels.index(text)
        raise ValueError(f"label {text!r}; expected one of {listed(labels)}{hint(nearest(text, labels))}")
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not 0 <= score <= HIGHEST_SCORE:
        raise ValueError(f"score {text!r}; expected a number from 0 to {HIGHEST_SCORE:g}")
    return score


class FileRows:
    """The rows of a data set in a folder or archive.

    identity: part of the cache key: the content of the files.
    whole:    whether they are GLUE's files in GLUE's division.
    where:    origin for results, without folders of this machine.

    Raises:
        DataError: files are missing.
    """

    def __init__(self, tree: FileTree, data_set: DataSet, cache: Path) -> None:
        self.tree, self.data_set = tree, data_set
        wanted = {name for files in data_set.layouts for name in files.values()}
        present_files = [name for name, _, _ in tree.walk(wanted.__contains__)]
        complete = [files for files in data_set.layouts if set(files.values()) <= set(present_files)]
        if not complete:
            layouts = " or ".join(listed(files.values()) for files in data_set.layouts)
            expected = f"{layouts} expected (each may end in .gz)"
            raise DataError(f"{tree.path}: {expected}, found {listed(present_files)} of these")
        self.files = complete[0]
        self.whole = self.files is data_set.layouts[0]
        self.where = "plain files" if isinstance(tree, Folder) else tree.path.name
        self.identity = tree.identity(set(self.files.values()).__contains__, cache)

    def read(self) -> dict[str, list[Row]]:
        """Rows by subset."""
        subsets, rows_of = {file: subset for subset, file in self.files.items()}, {}
        for name, where, file in self.tree.walk(subsets.__contains__):
            rows = read_rows(file, where, self.data_set)
            rows_of[subsets[name]] = list(track(rows, f"reading {name}", self.data_set.sizes[subsets[name]]))
        return {subset: rows_of[subset] for subset in self.files}


class HubRows(HubData):
    """The rows of a data set from the hub; `name` is its name in `DATA_SETS`."""

    whole = True

    def __init__(self, name: str, data_set: DataSet, advice: str) -> None:
        super().__init__(HUB, name, REVISION, advice)
        self.data_set = data_set

    def read(self) -> dict[str, list[Row]]:
        """Rows by subset.

        Raises:
            DataError: the hub or the package is not available, or a label is not valid.
        """
        subsets = self.data_set.layouts[0]
        return {subset: list(self._rows(subset.replace("test", "validation", 1))) for subset in subsets}

    def _rows(self, subset: str) -> Iterator[Row]:
        split, number = subset.replace("/", "_"), 0
        highest = len(self.data_set.classes) - 1 if self.data_set.classes else HIGHEST_SCORE
        for batch in self.splits[split].iter(batch_size=1000):
            texts = [batch[column] for column in self.data_set.hub_texts or self.data_set.texts]
            for *row, label in zip(*texts, batch["label"], strict=True):
                number += 1
                if not 0 <= label <= highest:
                    where = f"{HUB} ({self.configuration}), {split}, row {number}"
                    raise DataError(f"{where}: label {label} is none of the set")
                yield tuple(row), label


def open_rows(name: str, where: str, folders: Folders) -> FileRows | HubRows:
    """The rows of a data set; `where` is files, hub, or auto: files if they exist, else the hub.

    Raises:
        DataError: they are not available there.
    """
    data_set = DATA_SETS[name]
    tree = data_set.find(folders)
    if where == "files" or (where == "auto" and tree is not None):
        return FileRows(tree or data_set.open(folders), data_set, folders.cache)
    advice = f"Its files are at {tree.path}: task.source=files reads them." if tree else data_set.missing(folders)
    if not data_set.on_hub:
        raise DataError(f"{name} is not on the Hugging Face hub. {advice}")
    return HubRows(name, data_set, advice)
