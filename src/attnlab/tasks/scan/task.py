"""SCAN (Lake & Baroni 2018, arXiv 1711.00350): commands in a small English, and the actions they stand for.

One example, as in the official file `tasks.txt`:

    IN: walk opposite left and jump thrice OUT: I_TURN_LEFT I_TURN_LEFT I_WALK I_JUMP I_JUMP I_JUMP

A grammar generates all 20,910 pairs (tasks/scan/grammar.py). `split=length_cutoff` (Csordas et al. 2021) needs no
files; the official splits (tasks/scan/splits.py describes them) are lists of pairs, read from a clone of github
brendenlake/SCAN, from an archive of a clone, or downloaded. No split has a validation set; `validation_share` sets some
training pairs aside as `val`.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Unpack

import numpy as np

from attnlab.data.examples import SequencePairs
from attnlab.data.files.fetch import DataError, Folders
from attnlab.data.files.folder_or_archive import DataSource, bad_line
from attnlab.data.files.official_files import read_table
from attnlab.tasks.base import Prepared
from attnlab.tasks.scan.grammar import INPUTS, MAX_INPUT, MAX_OUTPUT, OUTPUTS, Pair, all_pairs, interpret
from attnlab.tasks.scan.splits import Split, few_examples, file_path, require_law
from attnlab.tasks.word_tasks import SequenceOptions, SequenceTask

OFFICIAL = read_table(__file__)["SCAN"]


def parse_pairs(text: str, where: str) -> list[Pair]:
    """The pairs of a file in the official format, each checked against the grammar.

    Raises:
        DataError: names `where`, the number of the first wrong line, and the problem.
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


def read_official(split: str, part: str, folders: Folders) -> list[Pair]:
    """The pairs of an official file: from a clone of the repository, an archive of a clone, or a download.

    Raises:
        DataError: the file is missing and cannot be downloaded, or is not the official one (first bad line, checksum).
    """
    (content,) = OFFICIAL.read([file_path(split, part)], folders).values()
    pairs = parse_pairs(content.data.decode("ascii", errors="replace"), content.where)
    content.require_official()
    return pairs


class Scan(SequenceTask):
    """SCAN.

    Args:
        split: `length_cutoff`: 90 % of the pairs with at most `length_cutoff` actions are `train`, 10 % `test/iid`;
            longer pairs are `test/ood`. Other values: the official split of that name with `train` and `test`; the
            repeated rows of the add-primitive files stay.
        length_cutoff: maximum number of actions in training, for `split=length_cutoff`.
        data_seed: seed of the 90/10 division (the published one has the same sizes but other rows) and of `val`.
        options: as in SequenceTask; as published without `val` and with end tokens. The drawn commands of the splits
            `addprim_complex_...` and `fewshot_...` are never in `val`.
    """

    version = 1
    inputs, outputs, longest = INPUTS, OUTPUTS, (MAX_INPUT, MAX_OUTPUT)
    subsets = ("train", "test")
    subsets_with: ClassVar = {"split": {"length_cutoff": ("train", "test/iid", "test/ood")}}
    drawn_with: ClassVar = {"split": ("length_cutoff",)}
    published = "20,910 pairs; cutoff 26: train 16,458, test/iid 1,828, test/ood 2,624"

    def __init__(
        self,
        split: Split = "length_cutoff",
        length_cutoff: Annotated[int, "[1, 47]"] = 26,
        data_seed: Annotated[int, "[0, inf)"] = 0,
        **options: Unpack[SequenceOptions],
    ) -> None:
        super().__init__(**options)
        self.split, self.length_cutoff, self.data_seed = split, length_cutoff, data_seed

    def sources(self) -> list[DataSource]:
        if self.split == "length_cutoff":
            return []
        return [replace(OFFICIAL, title=f"SCAN's official split {self.split}")]

    def example(self, prepared: Prepared[SequencePairs], subset: str, number: int) -> str:
        pairs = prepared.subsets[subset]
        command, actions = INPUTS.decode(pairs.inputs[number]), OUTPUTS.decode(pairs.targets[number])
        return f"IN: {' '.join(command)} OUT: {' '.join(actions)}"

    def prepare(self, folders: Folders) -> Prepared[SequencePairs]:
        if self.split == "length_cutoff":
            parts = self._cut()
        else:
            parts = {part: read_official(self.split, part, folders) for part in ("train", "test")}
            require_law(self.split, parts, OFFICIAL.file(file_path(self.split, "train")).path)
        framed = {name: self.framed(pairs, name) for name, pairs in parts.items()}
        return self.prepared(*self.with_validation(framed, lambda: self._staying(parts["train"])))

    def _staying(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Mask of the training pairs that are never set aside, repeated ones apart."""
        commands = [" ".join(command) for command, _ in pairs]
        few = few_examples(self.split, commands)
        return np.array([command in few for command in commands])

    def _cut(self) -> dict[str, list[Pair]]:
        pairs = all_pairs()
        short = [pair for pair in pairs if len(pair[1]) <= self.length_cutoff]
        # the published code rounds (1 - 0.9) n down in floating point: a tenth, or one less if n is a multiple of ten
        n_iid = max(1, (len(short) - 1) // 10)
        order = np.random.default_rng(self.data_seed).permutation(len(short))
        return {
            "train": [short[number] for number in np.sort(order[n_iid:])],
            "test/iid": [short[number] for number in np.sort(order[:n_iid])],
            "test/ood": [pair for pair in pairs if len(pair[1]) > self.length_cutoff],
        }
