"""SCAN (Lake & Baroni 2018, arXiv 1711.00350): commands in a small English, and the actions they stand for.

One example, as in the official file `tasks.txt`:

    IN: walk opposite left and jump thrice OUT: I_TURN_LEFT I_TURN_LEFT I_WALK I_JUMP I_JUMP I_JUMP

All 20,910 pairs follow from a grammar (tasks/scan/grammar.py). `split=length_cutoff` (Csordas et al. 2021) needs
nothing else; the official splits are lists of pairs, read from a clone of github brendenlake/SCAN, from an archive of
one, or downloaded (tasks/scan/splits.py says what they are). There is no validation set in any of them.
"""

import hashlib
import re
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np

from attnlab.data.files.archive import Source, bad_line, find_tree
from attnlab.data.files.fetch import DataError, Folders, OfficialFile, fetch
from attnlab.data.sequence_pairs import SequencePairs
from attnlab.data.task_spec import SEQUENCE_METRICS, TaskSpec
from attnlab.tasks.base import Prepared, Task
from attnlab.tasks.scan.grammar import INPUTS, MAX_INPUT, MAX_OUTPUT, OUTPUTS, Pair, all_pairs, interpret
from attnlab.tasks.scan.splits import FILES, Split, file_path, require_law

PLACES = ("SCAN", "scan/SCAN", "SCAN.tar.gz", "scan/SCAN.tar.gz", "SCAN/SCAN.tar.gz")
REPOSITORY = "https://raw.githubusercontent.com/brendenlake/SCAN/c4b756cbc010d75c912f16c42c8f15dc6b7e6c8f/"


def parse_pairs(text: str, where: str) -> list[Pair]:
    """The pairs of a file in the official format, each checked against the grammar.

    Raises:
        DataError: names `where` and the number of the first line that is wrong, and how.
    """
    pairs = []
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        try:
            pairs.append(_parse_line(line))
        except (ValueError, DataError) as error:
            raise bad_line(where, number, str(error)) from None
    return pairs


def _parse_line(line: str) -> Pair:
    match = re.fullmatch(r"IN: (.+) OUT: (.+)", line)
    if match is None:
        raise ValueError(f"'IN: <command> OUT: <actions>' expected, found {line[:80]!r}")
    command, actions = (part.split(" ") for part in match.groups())
    INPUTS.encode(command)
    OUTPUTS.encode(actions)
    if actions != (expected := interpret(command)):
        raise ValueError(f"{' '.join(command)!r} means {' '.join(expected)!r}, found {' '.join(actions)!r}")
    return command, actions


def official_file(split: str, part: str) -> OfficialFile:
    """The file of an official split; `part` is train or test."""
    path = file_path(split, part)
    size, sha256 = FILES.get(f"{part}_{split}", (None, None))
    return OfficialFile(path=f"SCAN/{path}", url=REPOSITORY + path, size=size, sha256=sha256)


def read_official(split: str, part: str, folders: Folders) -> list[Pair]:
    """The pairs of an official file: from a clone of the repository, an archive of one, or a download.

    Raises:
        DataError: the file is missing and cannot be downloaded, or is not the official one (first bad line, checksum).
    """
    file = official_file(split, part)
    content, where = _content(file, folders)
    pairs = parse_pairs(content.decode("ascii", errors="replace"), where)
    if file.sha256 not in (None, found := hashlib.sha256(content).hexdigest()):
        raise DataError(
            f"{where} is not the official file: expected sha256 {file.sha256}, found {found} "
            f"({len(content)} bytes where {file.size} are expected). Put the official file in its place ({file.url})."
        )
    return pairs


def _content(file: OfficialFile, folders: Folders) -> tuple[bytes, str]:
    name = file.path.removeprefix("SCAN/")
    for place in PLACES:
        tree = find_tree(folders.data, [place])
        for _, where, found in tree.walk(lambda other: other == name) if tree else ():
            return found.read(), where
    path: Path = fetch(file, folders.data, folders.cache)
    return path.read_bytes(), str(path)


class Scan(Task):
    """SCAN.

    Args:
        split: `length_cutoff`: pairs with at most `length_cutoff` actions are divided into 90 % `train` and 10 %
            `test/iid`, longer ones are `test/ood`. Any other: the official split of that name, `train` and `test`;
            rows that the add-primitive files repeat on purpose stay repeated.
        length_cutoff: most actions in training, for `split=length_cutoff`.
        data_seed: draws the 90/10 division; the published division is equal in size but not in rows.
    """

    kind = "encoder_decoder"
    modality = "tokens"
    version = 1
    subsets = ("train", "test")
    subsets_with: ClassVar = {"split": {"length_cutoff": ("train", "test/iid", "test/ood")}}
    published = "20,910 pairs; cutoff 26: train 16,458, test/iid 1,828, test/ood 2,624"

    def __init__(
        self,
        split: Split = "length_cutoff",
        length_cutoff: Annotated[int, "[1, 47]"] = 26,
        data_seed: Annotated[int, "[0, inf)"] = 0,
    ) -> None:
        self.split, self.length_cutoff, self.data_seed = split, length_cutoff, data_seed

    def sources(self) -> list[Source]:
        if self.split == "length_cutoff":
            return []
        offer = "a clone of https://github.com/brendenlake/SCAN, 4 MB a split (downloaded when it is missing)"
        return [Source(what=f"SCAN's official split {self.split}", places=PLACES, offers=(offer,))]

    def example(self, prepared: Prepared, subset: str, number: int) -> str:
        pairs = prepared.subsets[subset]
        command, actions = INPUTS.decode(pairs.inputs[number]), OUTPUTS.decode(pairs.targets[number])
        return f"IN: {' '.join(command)} OUT: {' '.join(actions)}"

    def token_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return INPUTS.words, OUTPUTS.words

    def prepare(self, folders: Folders) -> Prepared:
        if self.split == "length_cutoff":
            parts = self._cut()
        else:
            parts = {part: read_official(self.split, part, folders) for part in ("train", "test")}
            require_law(self.split, parts, official_file(self.split, "train").path)
        subsets = {name: _table(pairs) for name, pairs in parts.items()}
        # the vocabulary and the lengths are the grammar's, so that a model can be evaluated on any other split
        spec = TaskSpec(
            kind=self.kind,
            modality=self.modality,
            input_vocabulary=len(INPUTS),
            output_vocabulary=len(OUTPUTS),
            pad_id=INPUTS.pad_id,
            end_id=INPUTS.end_id,
            never_targets=OUTPUTS.never_targets,
            max_input_length=MAX_INPUT + 2,
            max_output_length=MAX_OUTPUT + 1,
            metrics=SEQUENCE_METRICS,
        )
        limits = {name: int(subset.lengths.max()) + 1 for name, subset in subsets.items() if name != "train"}
        return Prepared(spec=spec, subsets=subsets, decode_limits=limits)

    def _cut(self) -> dict[str, list[Pair]]:
        pairs = list(all_pairs())
        short = [pair for pair in pairs if len(pair[1]) <= self.length_cutoff]
        # a tenth, less one where it divides evenly: the published code rounds (1 - 0.9) n down in floating point
        n_iid = max(1, (len(short) - 1) // 10)
        order = np.random.default_rng(self.data_seed).permutation(len(short))
        return {
            "train": [short[number] for number in np.sort(order[n_iid:])],
            "test/iid": [short[number] for number in np.sort(order[:n_iid])],
            "test/ood": [pair for pair in pairs if len(pair[1]) > self.length_cutoff],
        }


def _table(pairs: list[Pair]) -> SequencePairs:
    start, end = INPUTS.start_id, INPUTS.end_id
    inputs = [[start, *INPUTS.encode(command), end] for command, _ in pairs]
    targets = [[*OUTPUTS.encode(actions), end] for _, actions in pairs]
    return SequencePairs.of(inputs, targets, INPUTS.pad_id)
